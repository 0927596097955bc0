package site

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bakeoff/publish/site/feed"
)

// schemas are written from the specifications: feed/testdata.
const schemas = "feed/testdata"

// schemaOf is the schema of a file of the output, "" if it has none.
func schemaOf(file string) string {
	switch name := path.Base(file); {
	case strings.HasPrefix(name, "sitemap"):
		return "sitemap.xsd"
	case name == "rss.xml":
		return "rss.rng"
	case name == "atom.xml":
		return "atom.rng"
	case name == "feed.json":
		return "feed.schema.json"
	}
	return ""
}

// against returns what a schema says of a document.
func against(t *testing.T, schema, text string) error {
	t.Helper()
	schema = filepath.Join(schemas, schema)
	if path.Ext(schema) == ".json" {
		s, err := jsonschema.NewCompiler().Compile(schema)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return s.Validate(document)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	flag := "--relaxng"
	if path.Ext(schema) == ".xsd" {
		flag = "--schema"
	}
	c := exec.CommandContext(ctx, "xmllint", "--nonet", "--noout", flag, schema, "-")
	c.Stdin, c.WaitDelay = strings.NewReader(text), time.Second
	out, err := c.CombinedOutput()
	// 3 and 4: the document does not follow the schema. 1: it is no XML.
	if code := c.ProcessState.ExitCode(); err != nil && code != 1 && code != 3 && code != 4 {
		t.Fatalf("xmllint: %v\n%s", err, out)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Feeds and site maps follow their schemas: those of a usual site, of one with hostile
// texts, of one in two languages, and of one without posts.
func TestFeedsFollowTheirSchemas(t *testing.T) {
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("needs xmllint: apt-get install libxml2-utils")
	}
	usual := maps.Clone(sample)
	usual["config.sh.local"] += "RSS_INCLUDE_FULL_CONTENT=true\n"
	usual["src/plain.md"] = "No front matter.\n"
	for name, files := range map[string]map[string]string{"usual": usual, "hostile": hostile("true"),
		"languages": multilingual, "empty": {"src/.keep": ""}} {
		dir := blog(t, files)
		buildSite(t, dir, Option{})
		got := tree(t, filepath.Join(dir, "output"))
		checked := map[string]bool{}
		for _, file := range slices.Sorted(maps.Keys(got)) {
			schema := schemaOf(file)
			if schema == "" {
				continue
			}
			checked[schema] = true
			if err := against(t, schema, got[file]); err != nil {
				t.Errorf("%s: %s: %v\n%s", name, file, err, got[file])
			}
		}
		if len(checked) != 4 {
			t.Errorf("%s: only %v were checked", name, checked)
		}
	}
	if err := against(t, "sitemap.xsd", string(feed.Index([]string{"https://example.com/sitemap-1.xml"}))); err != nil {
		t.Errorf("the index of site maps: %v", err)
	}
}

// The schemas find mistakes: each replacement makes a valid document wrong.
func TestSchemasFindMistakes(t *testing.T) {
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("needs xmllint: apt-get install libxml2-utils")
	}
	dir := blog(t, sample)
	buildSite(t, dir, Option{})
	got := tree(t, filepath.Join(dir, "output"))
	for file, mistakes := range map[string][][2]string{
		"rss.xml": {{"<rss version=\"2.0\"", "<rss"}, {"<description>Notes from the quay</description>", ""},
			{"<link>https://example.com/blog/</link>", "<link>/blog/</link>"}, {" 2025 ", " 25 "}, {"<pubDate>", "<date>"},
			{"<language>en</language>", "<language></language>"}, {"isPermaLink=\"true\"", "isPermaLink=\"yes\""},
			{"</item>", "<author>Ada</author></item>"}},
		"atom.xml": {{"<updated>", "<updated>on "}, {"<id>https://", "<id>"}, {"+02:00</published>", "</published>"},
			{"rel=\"alternate\"", "rel=\"other\""}, {"rel=\"self\"", "rel=\"via\""}, {"<name>Grace</name>", ""},
			{"http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#"}},
		"feed.json": {{"https://jsonfeed.org/version/1.1", "1.1"}, {`"id":`, `"guid":`}, {`"content_text":`, `"text":`},
			{"T08:00:00", " 08:00:00"}, {`"items":`, `"posts":`}, {`"name": "Ada"`, `"email": "Ada"`}},
		"sitemap.xml": {{"<loc>https://", "<loc>"}, {"sitemap/0.9", "sitemap/0.8"},
			{"T00:00:00Z</lastmod>", "T00:00:00</lastmod>"},
			{"<loc>https://example.com/blog/about/", "<loc>https://example.com/blog/"}},
	} {
		if err := against(t, schemaOf(file), got[file]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, m := range mistakes {
			wrong := strings.Replace(got[file], m[0], m[1], 1)
			switch {
			case wrong == got[file]:
				t.Errorf("%s has no %q:\n%s", file, m[0], wrong)
			case against(t, schemaOf(file), wrong) == nil:
				t.Errorf("%s is valid with %q instead of %q", file, m[1], m[0])
			}
		}
	}
}
