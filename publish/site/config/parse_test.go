package config

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestParse(t *testing.T) {
	c, warnings, err := Parse([]byte(`# a comment
export SITE_TITLE="A \"quoted\" title" # after
AUTHOR_NAME='It'\''s me'
POSTS_PER_PAGE=5
OUTPUT_DIR=/srv/blog/public
SITE_LANGS="en it de"
DEPLOY_COMMAND=(rsync -a "out put/" host:)
THEMES_DIR=themes
POSTS_PER_PAGES=7
`), "/srv/blog")
	if err != nil {
		t.Fatal(err)
	}
	if c.Title != `A "quoted" title` || c.Author != "It's me" || c.PostsPerPage != 5 || c.Output != "public" ||
		!slices.Equal(c.Languages, []string{"en", "de", "it"}) ||
		!slices.Equal(c.Deploy, []string{"rsync", "-a", "out put/", "host:"}) {
		t.Errorf("%+v", c)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], `config.sh.local:9`) ||
		!strings.Contains(warnings[0], `did you mean "POSTS_PER_PAGE"?`) {
		t.Errorf("warnings %q", warnings)
	}
}

func TestNothingIsExecuted(t *testing.T) {
	for _, text := range []string{"rm -rf /", "A=$(id)", "A=`id`", "A=\"$HOME\"", "A=${X:-y}", "A=1 id", "source x", ". x",
		"if true; then A=1; fi", "A=1 | id", "A=1 > x", "A=1 &", "f() { id; }", "A+=1", "A[0]=1", "declare A=1", "export A",
		"A=<(id)", "A=$((1+1))", "A=$'x'", "! A=1", "(A=1)", "SITE_URL=javascript:x", "SITE_URL=https://",
		"RSS_FILENAME=../x",
		"OUTPUT_DIR=/etc", "SRC_DIR=..", "URL_SLUG_FORMAT=../slug", "POSTS_PER_PAGE=0", "ENABLE_SEARCH=maybe"} {
		if _, _, err := Parse([]byte("SITE_TITLE=x\n"+text+"\n"), "/srv/blog"); err == nil || !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), "config.sh.local:2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"A=1", "A='", "A=(", "SITE_URL=https://x/y", "export A=\"b\\\"c\"", "\x00", "A=\"${"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, _, err := Parse([]byte(s), "/site")
		if err == nil && (strings.HasPrefix(c.Output, "/") || strings.Contains("/"+c.Output+"/", "/../")) {
			t.Errorf("%q: output %q", s, c.Output)
		}
	})
}
