package site

import (
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/publish/site/theme"
)

// build a site of a sample with more settings.
func withSettings(t *testing.T, more string) string {
	t.Helper()
	dir := blog(t, sample)
	write(t, dir, "config.sh.local", sample["config.sh.local"]+more)
	return dir
}

func TestCustomStyleSheet(t *testing.T) {
	dir := withSettings(t, "THEME=terminal\nCUSTOM_CSS=/css/own.css\n")
	const own = ".site-title { letter-spacing: .1em; }"
	write(t, dir, "static/css/own.css", own)
	if r := buildSite(t, dir, Option{}); r.Theme != "terminal" || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	style := tree(t, filepath.Join(dir, "output"))["css/style.css"]
	if !strings.HasSuffix(style, own) || !strings.Contains(style, "/* theme terminal */") {
		t.Error("the style sheet is not that of the theme, and then the site's own")
	}
	// A change of it changes two files only: its copy, and the style sheet.
	write(t, dir, "static/css/own.css", "/* longer */ "+own)
	if r := buildSite(t, dir, Option{}); r.Files.Written != 2 {
		t.Errorf("%d files were written", r.Files.Written)
	}
	for _, bad := range []string{"missing.css", "../config.sh.local", "/etc/passwd"} {
		dir := withSettings(t, "CUSTOM_CSS="+bad+"\n")
		r := buildSite(t, dir, Option{})
		style := tree(t, filepath.Join(dir, "output"))["css/style.css"]
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "CUSTOM_CSS") || strings.Contains(style, "SITE_TITLE") {
			t.Errorf("%s: warnings %q", bad, r.Warnings)
		}
	}
}

// The theme "random" changes with the day: a second build on the same day changes nothing.
func TestRandomTheme(t *testing.T) {
	dir := withSettings(t, "THEME=random\n")
	first := buildSite(t, dir, Option{})
	if again := buildSite(t, dir, Option{}); again.Theme != first.Theme || again.Files.Written != 0 {
		t.Errorf("%s, then %s with %d files", first.Theme, again.Theme, again.Files.Written)
	}
	seen := map[string]bool{}
	for day := range 60 {
		name := randomTheme("https://example.com", now.AddDate(0, 0, day))
		if _, err := theme.Find(name); err != nil {
			t.Error(err)
		}
		seen[name] = true
	}
	if len(seen) < 10 {
		t.Errorf("60 days show %d themes", len(seen))
	}
}

func TestUnknownTheme(t *testing.T) {
	dir := withSettings(t, "THEME=bsd-minimal\n")
	r := buildSite(t, dir, Option{})
	if r.Theme != theme.Default || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "bsd-minimal") {
		t.Errorf("%+v", r)
	}
	if _, err := tryBuild(dir, Option{Theme: "no-such"}); err == nil {
		t.Error("a theme of the command line that does not exist is accepted")
	}
}

func TestPrecompressedSite(t *testing.T) {
	dir := withSettings(t, "PRECOMPRESS_ASSETS=true\n")
	buildSite(t, dir, Option{})
	got := tree(t, filepath.Join(dir, "output"))
	for name, text := range got {
		if strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".br") {
			continue
		}
		_, packed := got[name+".br"]
		if want := len(text) >= 512 && name != "favicon.ico"; packed != want {
			t.Errorf("%s of %d bytes has a compressed version: %v", name, len(text), packed)
		}
	}
	if r := buildSite(t, dir, Option{}); r.Files.Written != 0 {
		t.Errorf("a second build writes %d files", r.Files.Written)
	}
	write(t, dir, "config.sh.local", sample["config.sh.local"])
	buildSite(t, dir, Option{})
	for name := range tree(t, filepath.Join(dir, "output")) {
		if strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".br") {
			t.Errorf("%s is left over", name)
		}
	}
}
