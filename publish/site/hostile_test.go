package site

import (
	"bytes"
	"image"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func pngOf(t *testing.T, w, h int) string {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'`

// hostile is a blog of somebody who wants to run a script or to leave the folder.
func hostile(raw string) map[string]string {
	return map[string]string{
		"config.sh.local": "SITE_TITLE='" + strings.ReplaceAll(evil, "'", `'\''`) + "'\nSITE_DESCRIPTION=\"\\\"" +
			"><script>alert(3)</script>\"\nAUTHOR_NAME='</title><script>alert(4)</script>'\nRAW_HTML=" + raw +
			"\nRSS_INCLUDE_FULL_CONTENT=true\nINDEX_SHOW_FULL_CONTENT=true\nENABLE_AUTHOR_RSS=true\n",
		"src/" + strings.ReplaceAll(evil, "/", "_") + ".md": "---\ntitle: " + evil + "\ndate: 2025-01-01\ntags: " + evil +
			", ../../../etc, javascript:alert(5), </script><script>alert(6)</script>\ndescription: " + evil +
			"\nslug: ../../../../tmp/escape\nimage: javascript:alert(7)\nimage_caption: " + evil + "\nauthor_name: " + evil +
			"\nlang: ../../x\n---\n" + `[a](javascript:alert(8)) [b](JaVaScRiPt:alert(9))
[c](data:text/html,<script>alert(10)</script>)
<javascript:alert(11)> ![d](javascript:alert(12)) [e](java&#10;script:alert(13))
[f]( <vbscript:x> "` + "t\" onclick=alert(14)" + `")
[g](//evil.example/x) [h][r] ![` + evil + `](/x.png "` + `' onload=alert(15)")

# <img src=x onerror=alert(16)> {onclick=alert(17)}

<svg onload=alert(18)> **<b onmouseover=alert(19)>x</b>**

` + "```html\" onload=alert(20)\n</code></pre><script>alert(21)</script>\n```\n" + `
|<script>alert(22)</script>|b|
|--|--|
|` + "`</td><script>alert(23)</script>`" + `|x|

[^1]: <script>alert(24)</script>

[r]: javascript:alert(25)

x[^1]
`,
		"src/page.html": "---\ntitle: " + evil + "\ndate: 2025-01-03\n---\n" + evil + "<svg onload=alert(26)><iframe " +
			"src=javascript:alert(27)></iframe><form action=x><input></form><a href=' javascript:alert(28)'>x</a>" +
			"<p style=\"background:url(x)\">x<math><mi xlink:href=javascript:alert(29)>x</math><meta http-equiv=refresh>",
		"src/image.md": "---\ntitle: I\ndate: 2025-01-02\nimage: https://evil.example\";script-src 'unsafe-inline'/x.png\n" +
			"---\n![](https://a.example;script-src/x.png) ![](https://ok.example/x.png)\n",
	}
}

func TestHostileContentRunsNothing(t *testing.T) {
	for _, raw := range []string{"false", "true"} {
		dir := blog(t, hostile(raw))
		buildSite(t, dir, Option{})
		files := tree(t, filepath.Join(dir, "output"))
		pages := 0
		for name, text := range files {
			if strings.HasSuffix(name, ".html") {
				pages++
				checkPage(t, name, text, raw == "true")
			}
		}
		if pages < 8 {
			t.Errorf("only %d pages: the test saw too little", pages)
		}
	}
}

// checkPage reads a page as a browser does. Where the site permits HTML in texts, the
// policy alone keeps scripts from running.
func checkPage(t *testing.T, name, text string, raw bool) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	policies := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attributes := map[string]string{}
		for _, a := range n.Attr {
			attributes[a.Key] = a.Val
			if !raw && (strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc") {
				t.Errorf("%s: <%s %s=%q>", name, n.Data, a.Key, a.Val)
			}
			if !raw && (a.Key == "href" || a.Key == "src" || a.Key == "action") {
				checkAddress(t, name, a.Val)
			}
		}
		if n.Data == "script" && !raw && attributes["type"] != "application/ld+json" &&
			!strings.HasSuffix(attributes["src"], "js/search.js") {
			t.Errorf("%s has a script: %v", name, n.Attr)
		}
		if attributes["http-equiv"] == "Content-Security-Policy" {
			policies++
			p := attributes["content"]
			if !strings.HasPrefix(p, "default-src 'none'; style-src 'self'; img-src 'self'") ||
				strings.Contains(p, "unsafe") || strings.Count(p, "script-src") > 1 ||
				strings.Contains(p, "script-src") && !strings.Contains(p, "script-src 'self'; connect-src 'self'") {
				t.Errorf("%s: the policy is %s", name, p)
			}
		}
	}
	if policies != 1 {
		t.Errorf("%s has %d policies", name, policies)
	}
}

func checkAddress(t *testing.T, name, address string) {
	t.Helper()
	// Browsers ignore tabs, line breaks and leading spaces in addresses.
	clean := strings.TrimLeft(strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(address), "\x00 \x01\x1f")
	u, err := url.Parse(clean)
	if err != nil {
		t.Errorf("%s: address %q: %v", name, address, err)
		return
	}
	switch u.Scheme {
	case "", "http", "https", "mailto", "tel":
	default:
		t.Errorf("%s: address %q", name, address)
	}
}

func TestHostileContentStaysInTheFolder(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "site")
	for name, text := range hostile("false") {
		write(t, dir, name, text)
	}
	write(t, base, "secret.md", "---\ntitle: secret\ndate: 2025-01-01\n---\nsecret words\n")
	write(t, base, "out/keep", "keep")
	for link, target := range map[string]string{"src/link.md": "../../secret.md", "static/link": "../../secret.md",
		"static/folder": "../..", "pages": "..", "output/2025": "../../out"} {
		path := filepath.Join(dir, filepath.FromSlash(link))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	_, err := tryBuild(dir, Option{})
	if err == nil {
		t.Error("a link out of the site in place of a folder is not refused")
	}
	if err := os.Remove(filepath.Join(dir, "pages")); err != nil {
		t.Fatal(err)
	}
	buildSite(t, dir, Option{})
	for name, text := range tree(t, filepath.Join(dir, "output")) {
		if strings.Contains(text, "secret words") {
			t.Errorf("%s shows a file from outside of the site", name)
		}
	}
	got := tree(t, base)
	for name := range got {
		if !strings.HasPrefix(name, "site/") && name != "secret.md" && name != "out/keep" {
			t.Errorf("the build wrote %s", name)
		}
	}
}
