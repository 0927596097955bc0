package theme

import (
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// pairs are what stands on what, with the least contrast of WCAG 2.2 (1.4.3 and 1.4.11).
var pairs = []struct {
	least      float64
	ink, paper string
}{
	{4.5, "text muted link", "bg"},
	{4.5, "text muted link", "surface"},
	{4.5, "on-accent", "accent"},
	{4.5, "code-text hl-keyword hl-string hl-number hl-comment hl-name", "code-bg"},
	{3, "accent focus", "bg"},
	{3, "focus", "surface"},
}

func TestContrastOfEveryTheme(t *testing.T) {
	for _, th := range All() {
		light, dark := palettes(t, th)
		for scheme, colors := range map[string]map[string]string{"light": light, "dark": dark} {
			for _, p := range pairs {
				for _, ink := range strings.Fields(p.ink) {
					if got := contrast(t, th.Name, colors, ink, p.paper); got < p.least {
						t.Errorf("%s, %s: --%s on --%s has %.2f to 1, want %v", th.Name, scheme, ink, p.paper, got, p.least)
					}
				}
			}
		}
	}
}

var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/`)
	dark     = regexp.MustCompile(`(?s)@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}`)
	root     = regexp.MustCompile(`(?s):root \{(.*?)\}`)
	property = regexp.MustCompile(`--([a-z-]+):\s*([^;]+);`)
	hexColor = regexp.MustCompile(`^#[0-9a-f]{6}$`)
)

// palettes reads the colors that a theme itself sets.
func palettes(t *testing.T, th Theme) (light, darkColors map[string]string) {
	t.Helper()
	css := comments.ReplaceAllString(th.CSS, "")
	d := dark.FindStringSubmatch(css)
	l := root.FindStringSubmatch(css)
	if d == nil || l == nil || strings.Index(css, l[0]) > strings.Index(css, d[0]) {
		t.Fatalf("%s sets no colors in :root, and for the dark below it", th.Name)
	}
	colors := func(block string) map[string]string {
		out := map[string]string{}
		for _, m := range property.FindAllStringSubmatch(block, -1) {
			out[m[1]] = strings.ToLower(strings.TrimSpace(m[2]))
		}
		return out
	}
	return colors(l[1]), colors(d[1])
}

func contrast(t *testing.T, name string, colors map[string]string, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, name, a, colors[a]), luminance(t, name, b, colors[b])
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, theme, name, color string) float64 {
	t.Helper()
	if !hexColor.MatchString(color) {
		t.Fatalf("%s: --%s is %q, want a color such as #1d2125", theme, name, color)
	}
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(color[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestThemesKeepTheContract(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		"loads something": regexp.MustCompile(`(?i)url\(|@import|@font-face|image-set\(`),
		"uses !important": regexp.MustCompile(`!important`),
		"uses physical sides": regexp.MustCompile(`(margin|padding|border)-(left|right)|\b(left|right)\s*:|` +
			`(text-align|float):\s*(left|right)`),
		"hides the focus":         regexp.MustCompile(`outline:\s*(0|none)`),
		"sets content for voices": regexp.MustCompile(`content:\s*"[^"]+"\s*;`),
	}
	seen := map[string]bool{}
	for i, th := range All() {
		if seen[th.Name] || th.About == "" {
			t.Errorf("%s is listed twice, or without a description", th.Name)
		}
		seen[th.Name] = true
		if i > 1 && th.Name < All()[i-1].Name {
			t.Errorf("%s is out of order", th.Name)
		}
		if !strings.HasPrefix(th.CSS, fmt.Sprintf("/* %s: ", th.Name)) {
			t.Errorf("%s does not begin with a comment that describes it", th.Name)
		}
		for what, pattern := range forbidden {
			if m := pattern.FindString(comments.ReplaceAllString(th.CSS, "")); m != "" {
				t.Errorf("%s %s: %q", th.Name, what, m)
			}
		}
		if strings.Count(th.CSS, "{") != strings.Count(th.CSS, "}") {
			t.Errorf("%s has unequal numbers of braces", th.Name)
		}
	}
	folders, err := fs.Glob(files, "*/theme.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if name, _, _ := strings.Cut(f, "/"); !seen[name] {
			t.Errorf("the theme %s is not in all.go", name)
		}
	}
}

func TestBaseGuarantees(t *testing.T) {
	for _, want := range []string{"prefers-color-scheme: dark", "prefers-reduced-motion: reduce", "@media print",
		"forced-colors: active", ":focus-visible", "color-scheme: light dark"} {
		if !strings.Contains(Base(), want) {
			t.Errorf("base.css lacks %s", want)
		}
	}
	if _, err := Find("no-such-theme"); err == nil || !strings.Contains(err.Error(), "terminal") {
		t.Errorf("an unknown theme: %v", err)
	}
}
