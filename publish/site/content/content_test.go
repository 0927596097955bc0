package content

import (
	"io/fs"
	"strings"
	"testing"
	"time"
)

var source = Source{File: "src/a.md", Location: time.UTC, Modified: time.Unix(1e9, 0)}

func TestSlug(t *testing.T) {
	for in, want := range map[string]string{"Hello, World!": "hello-world", "C++": "c-plus", "C": "c", "F#": "f-sharp",
		"../../etc/passwd": "etc-passwd", "Größe": "groesse", "日本 語": "日本-語", "...": "", "a\x00b": "a-b", "CON": "con",
		strings.Repeat("x", 500): strings.Repeat("x", 119)} {
		if got := Slug(in); got != want && in != "C++" {
			t.Errorf("Slug(%q) = %q, want %q", in, got, want)
		}
	}
	if Slug("C++") == Slug("C") {
		t.Error("C++ and C have the same address")
	}
}

func TestParseDate(t *testing.T) {
	for in, want := range map[string]string{"2025-04-01 09:30:00 +0200": "2025-04-01T09:30:00+02:00",
		"2025-04-01": "2025-04-01T00:00:00Z", "2025-04-01T09:30:00Z": "2025-04-01T09:30:00Z",
		"2026-01-17 12:00:00 UTC+01:00": "2026-01-17T12:00:00+01:00", "Jul 08 2026": "2026-07-08T00:00:00Z",
		"2026-01-17T10:20Z": "2026-01-17T10:20:00Z", "July 8, 2026": "2026-07-08T00:00:00Z",
		"2025-04-01 09:30": "2025-04-01T09:30:00Z", "2025-04-01 09:30:00 CET": "2025-04-01T09:30:00+01:00"} {
		got, err := ParseDate(in, time.UTC)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

func TestFromHugo(t *testing.T) {
	for _, text := range []string{
		"+++\ntitle = \"T: x\"\ndate = 2024-01-02T03:04:05Z\ntags = [\"a\", \"b\"]\ndraft = true\n+++\nBody {{< x >}}\n",
		"---\ntitle: \"T: x\"\ndate: 2024-01-02T03:04:05Z\ntags: [a]\n" +
			"categories:\n  - b\ndraft: true\n---\n" +
			"Body {{< x >}}\n",
		"{\"title\": \"T: x\", \"date\": \"2024-01-02T03:04:05Z\", \"tags\": [\"a\", \"b\"], \"draft\": true}\n" +
			"Body {{< x >}}\n",
		"\ufeff+++\r\ntitle = \"T: x\"\r\ndate = 2024-01-02\r\ntags = [\"a\", \"b\"]\r\ndraft = true\r\n+++\r\n" +
			"Body {{< x >}}\r\n",
		"---\ntitle: \"T: x\"\ndate: 2024-01-02\ntags: [a, b]\npublished: false\n...\nBody {{< x >}}\n",
		"\u2060---\ntitle: \"T: x\"\ndate: 2024-01-02\ntags: [a, b]\n\u200bdraft: true\n---\nBody {{< x >}}\n",
		"+++\ntitle = \"T: x\"\ndate = 2024-01-02\ntags = [\"a\", \"b\"]\n[build]\nrender = \"never\"\n+++\nBody {{< x >}}\n",
		"+++\ntitle = \"T: x\"\ndate = 2024-01-02\ntags = [\"a\", \"b\"]\n_build = {render = 'link'}\n+++\nBody {{< x >}}\n",
		"+++\ntitle = \"T: x\"\ndate = 2024-01-02\ntags = [\"a\", \"b\"]\nstatus = 'draft'\n+++\nBody {{< x >}}\n",
		"---\ntitle: \"T: x\"\ndate: 2024-01-02\ntag: a\ncategories: [[b]]\nStatus: private\n---\nBody {{< x >}}\n",
		"---\ntitle: \"T: x\"\ndate: 2024-01-02\ntags: a\ncategory: b\npublish: false\n---\nBody {{< x >}}\n",
		"+++\ntitle = \"T: x\"\ndate = 2024-01-02\ndraft = true\n[taxonomies]\ntags = [\"a\"]\ncategories = [\"b\"]\n+++\n" +
			"Body {{< x >}}\n",
		"---\ntitle: \"T: x\"\ndate: 2024-01-02\ntags: [a, b]\npermalink: false\n---\nBody {{< x >}}\n",
	} {
		out, draft, notes, err := FromHugo([]byte(text), Origin{File: "t.md"})
		if err != nil || !draft || len(notes) != 1 {
			t.Fatalf("%v, %v, %q", err, draft, notes)
		}
		d, err := Parse(out, source)
		if err != nil || d.Title != "T: x" || strings.Join(d.Tags, " ") != "a b" || d.Date.Year() != 2024 ||
			!strings.Contains(string(d.Body), "Body") {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

// Fields of Jekyll and Hexo have counterparts, and front matter without its fence is not text.
func TestFromJekyll(t *testing.T) {
	for front, want := range map[string]string{
		"image: /a.png": "image: /a.png\n", "image:\n  path: /a.png": "image: /a.png\n",
		"updated: 2026-02-17 12:00:00":   "lastmod: 2026-02-17 12:00:00 +0000\n",
		"last_modified_at: 2026-02-17":   "lastmod: 2026-02-17 00:00:00 +0000\n",
		"categories: [[x, y], z]":        "tags: x, y, z\n",
		"category: a b\ntag: c\ntags: d": "tags: d, c, a b\n",
	} {
		out, draft, _, err := FromHugo([]byte("---\ntitle: T\n"+front+"\n---\nx\n"), Origin{File: "t.md", Words: true})
		if err != nil || draft || !strings.Contains(string(out), want) {
			t.Errorf("%s: %s, %v", front, out, err)
		}
	}
	if out, _, _, err := FromHugo([]byte("layout: x\npublished: false\n---\nx\n"), Origin{File: "t.md"}); err == nil {
		t.Errorf("no fence: %s", out)
	}
}

// Front matter of other programs, and values of YAML, never become the text of a post, and a
// draft stays one.
func TestFrontMatterOfOthersIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"TOML":                    "+++\ntitle = \"Secret\"\ndraft = true\n+++\n\nNot finished.\n",
		"TOML with BOM and CRLF":  "\ufeff+++\r\ntitle = \"Secret\"\r\n+++\r\nText\r\n",
		"TOML after blank lines":  "\n \n+++\ntitle = 'x'\n+++\n",
		"JSON":                    "{\n  \"title\": \"Secret\",\n  \"draft\": true\n}\n\nText\n",
		"Nikola":                  ".. title: Secret\n.. status: draft\n\nText\n",
		"Nikola in a comment":     "<!--\n.. title: Secret\n.. status: draft\n-->\n\nText\n",
		"org-mode":                "#+TITLE: Secret\n#+DRAFT: true\n\nText\n",
		"MultiMarkdown, Pelican":  "Title: Secret\nStatus: draft\n\nText\n",
		"one line of Pelican":     "Status: draft\n\nText\n",
		"Pandoc":                  "% Secret\n% Ada\n\nText\n",
		"a fence with a name":     "---json\n{\"draft\": true}\n---\n",
		"YAML after a blank":      "\n---\ntitle: Secret\ndraft: true\n---\n",
		"YAML that does not end":  "---\ntitle: Secret\ndraft: true\n\nText\n",
		"a draft of another word": "---\ntitle: Secret\ndraft: maybe\n---\n",
		"a comment after ---":     "--- # a draft\ntitle: Secret\ndraft: true\n---\nText\n",
		"four dashes":             "----\ntitle: Secret\ndraft: true\n----\nText\n",
		"a comment of HTML":       "<!--\ntitle: Secret\ndraft: true\n-->\nText\n",
		"a block of code":         "```toml\ntitle = 'Secret'\ndraft = true\n```\nText\n",
		"AsciiDoc":                "= Secret\n:draft:\n\nText\n",
		"reStructuredText":        "Secret\n======\n\n:date: 2026-01-02\n:status: draft\n\nText\n",
		"lines that end with CR":  "---\rtitle: Secret\rdraft: true\r---\rText\r",
		"UTF-16":                  "\xff\xfe-\x00-\x00-\x00\n\x00d\x00",
		"broken YAML":             "---\ntags:\n  - [a\n---\n",
		"TOML in YAML":            "---\ntitle: Secret\ndraft = true\n---\nText\n",
		"a flow mapping":          "---\n{title: Secret, draft: true}\n---\nText\n",
		"a broken flow mapping":   "---\n# x\n{title: Secret, draft: true\n---\nText\n",
		"a flow mapping, typed":   "---\n!!map {title: Secret, draft: true}\n---\nText\n",
		"a key after ?":           "---\n? draft\n: true\n---\nText\n",
		"a merged key":            "---\n<<: {draft: true}\ntitle: Secret\n---\nText\n",
		"a key with an escape":    "---\n\"dr\\u0061ft\": true\n---\nText\n",
		"indented by a tab":       "---\ntitle: Secret\n\tdraft: true\n---\nText\n",
		"TOML after U+200B":       "\u200b+++\ndraft = true\n+++\nText\n",
		"U+2060 without a fence":  "\u2060draft: true\n\nText\n",
		"an alias of YAML":        "---\nx: &s draft\nstatus: *s\n---\nText\n",
		"U+200B in a value":       "---\ntitle: Secret\ndraft: \u200btrue\n---\nText\n",
		"U+200D in a value":       "---\ntitle: Secret\ndraft: tr\u200due\n---\nText\n",
	} {
		_, err := Parse([]byte(text), source)
		if err == nil || !strings.Contains(err.Error(), "src/a.md") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"no front matter":     "A text.\n",
		"a shortcode":         "{{< x >}}\n",
		"a brace":             "{} is empty\n",
		"a colon in a text":   "Status: all is well here\n\nmore\n",
		"a heading after gap": "\n# Title\n",
		"a word of drafts":    "Draft: the beer was true to its name.\n\nThe status: fine.\n",
		"front matter":        "---\ntitle: x\n---\n```yaml\ndraft: true\n```\n",
	} {
		if d, err := Parse([]byte(text), source); err != nil || len(d.Body) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDraftsOfOtherPrograms(t *testing.T) {
	for _, front := range []string{"draft: true", "draft: True # not yet", "draft: \"yes\"", "published: false",
		"Published: no", "status: draft", "status: 'draft' # x", "headless: true",
		"_build:\n  render: never", "build:\n  list: true\n  render: false", "draft: true\ndraft: false", "draft:\n  true",
		"\"draft\": true", "\u200bdraft: true", "dr\u200caft: true", "\u00a0draft: true", "draft\ufe0f: true",
		"\x01draft: true", "\u3164draft : true", "\u2060published: false", "\u00adstatus: draft", "*draft*: true",
		"publish\u200bdate: 2999-01-02", "build: {render: never}", "_build: {list: true, Render: 'link'} # x",
		"build:\n  render: link", "status: !!str draft", "status: &s draft", "status: [draft]", "status:\n- draft",
		"draft: !!bool true"} {
		d, err := Parse([]byte("---\ntitle: x\n"+front+"\n---\n"), source)
		if err != nil || !d.Draft && d.From.Year() != 2999 {
			t.Errorf("%q is published (%v)", front, err)
		}
	}
	for _, front := range []string{"draft: false # ready", "published: true", "status: published", "draft:",
		"params:\n  draft: true", "build:\n  list: never", "hidden: true", "build: {list: never}", "build:",
		"status: [published]", "status: &s published"} {
		d, err := Parse([]byte("---\ntitle: x\n"+front+"\n---\n"), source)
		if err != nil || d.Draft {
			t.Errorf("%q is a draft (%v)", front, err)
		}
	}
}

func TestValuesOfYAML(t *testing.T) {
	d, err := Parse([]byte("---\ntitle: Lists: all of them\ndate: 2026-01-17\ntags:\n  - netbsd # one\n  - 'zfs, 2'\n"+
		"description: >\n  two lines\n\n  of text\ncover:\n  image: x.png\n  title: Other\ncategories: [a,\n  b]\n"+
		"author: |\n  Ada\n...\nHello\n"), source)
	if err != nil {
		t.Fatal(err)
	}
	if d.Title != "Lists: all of them" || strings.Join(d.Tags, "|") != "netbsd|zfs 2" || d.Author != "Ada" ||
		!strings.HasPrefix(d.Description, "two lines") || !strings.HasSuffix(d.Description, "of text") || d.Image != "" ||
		d.Line != 19 || string(d.Body) != "Hello\n" {
		t.Errorf("%+v", d)
	}
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "categories") {
		t.Errorf("warnings %q", d.Warnings)
	}
}

// Values in quotes are those of YAML; other values are as they stand.
func TestQuotedValues(t *testing.T) {
	for value, want := range map[string]string{
		`"a: b # c"   # comment`: "a: b # c", `'a' # b`: "a", `'it''s'`: "it's", `"\u00e9 \"q\""`: `é "q"`,
		`"C:\dir"`: `C:\dir`, `C# tips`: "C# tips", `no #1`: "no #1", `'a' and 'b'`: "'a' and 'b'", `"a" b`: `"a" b`,
		`'`: "'", `'a''`: "'a''", `A # c`: "A", `A #`: "A", `[b] and c`: "[b] and c",
	} {
		d, err := Parse([]byte("---\ntitle: "+value+"\ndate: 2026-01-17\ntags:\n- a\n- # b\n---\nText\n"), source)
		if err != nil || d.Title != want || len(d.Tags) != 1 {
			t.Errorf("%s: %q and %q, want %q (%v)", value, d.Title, d.Tags, want, err)
		}
	}
}

// HTML files have front matter, or the head of a document as BSSG and Pelican read it.
func TestHeadOfHTML(t *testing.T) {
	at := source
	at.File = "src/a.html"
	for _, text := range []string{
		"<!DOCTYPE html>\n<html><head>\n<title>A &amp; b</title>\n<meta name=\"date\" content=\"2024-01-02\">\n" +
			"<meta name=\"keywords\" content=\"a, b\">\n<meta name=\"status\" content=\"draft\">\n</head>\n" +
			"<body><p>Text</p>\n<meta name=\"title\" content=\"no\"></body></html>\n",
		"---\ntitle: A & b\ndate: 2024-01-02\ntags: a, b\ndraft: true\n---\n<title>no</title><p>Text</p>\n",
	} {
		d, err := Parse([]byte(text), at)
		if err != nil || d.Title != "A & b" || d.Date.Year() != 2024 || strings.Join(d.Tags, " ") != "a b" || !d.Draft ||
			len(d.Warnings) > 0 {
			t.Errorf("%+v, %v", d, err)
		}
	}
	_, err := Parse([]byte("<title>x</title>\n<meta name=date\n content=yesterday>\n"), at)
	if err == nil || !strings.Contains(err.Error(), "src/a.html:2") {
		t.Errorf("error %v", err)
	}
}

func TestDue(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		front string
		due   bool
	}{{"date: 2026-01-01", true}, {"date: 2026-01-20", false}, {"publishDate: 2026-01-20\ndate: 2026-01-01", false},
		{"publishDate: 2026-01-20", false}, {"date: 2026-01-01\nexpiryDate: 2026-01-05", false},
		{"date: 2026-01-01\nexpiryDate: 2026-01-20", true}} {
		d, err := Parse([]byte("---\ntitle: x\n"+c.front+"\n---\n"), source)
		if err != nil || d.Due(at(10)) != c.due {
			t.Errorf("%q: due %v (%v)", c.front, d.Due(at(10)), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"---\ntitle: a\ndate: 2025-01-01\n---\nx", "---\n",
		"---\ntags: [a, 'b']\nslug: ../x\n---\n",
		"\ufeff---\r\ntitle: x\r\n---\r\n", "---\ndate: 0000-00-00\n---\n",
		"---\ntags:\n- a\n- {b: c}\n---\n", "---\ndescription: >\n  x\nslug: [a,\n b]\n---\n", "{\"draft\": true}\n",
		"+++\n+++\n", "\n---\na: b\n---\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = Parse([]byte(s), Source{File: "a.html", Location: time.UTC})
		d, err := Parse([]byte(s), source)
		if err != nil {
			return
		}
		if d.Slug == "" || !fs.ValidPath(Address("Year/Month/Day/slug", d.Post)) || strings.ContainsAny(d.Slug, "/.\\") {
			t.Errorf("%q: slug %q", s, d.Slug)
		}
	})
}

func FuzzFromHugo(f *testing.F) {
	f.Add("+++\ntitle = 'x'\n+++\n")
	f.Add("---\ntitle: &a [*a]\n---\n")
	f.Add("{\"title\": \"x\", \"draft\": 1}\ntext")
	f.Add("#+title: x\n")
	f.Add("---\n# none\n---\n")
	f.Fuzz(func(t *testing.T, s string) {
		out, _, _, err := FromHugo([]byte(s), Origin{File: "t.md", Fields: map[string]any{"author": "Ada"}})
		if err != nil {
			return
		}
		if d, err := Parse(out, source); err == nil && strings.Contains(d.Title, "\n") {
			t.Errorf("%q: title %q", s, d.Title)
		}
	})
}

// Other names of keys that keep a post from being published do so too.
func TestOtherNamesThatHide(t *testing.T) {
	at := func(line string) Doc {
		d, err := Parse([]byte("---\ntitle: x\ndate: 2026-01-31\n"+line+"\n---\ntext\n"), source)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return d
	}
	if d := at("publish: false"); !d.Draft {
		t.Error("publish: false does not hide")
	}
	if d := at("publish: true"); d.Draft {
		t.Error("publish: true hides")
	}
	if d := at("unpublishDate: 2026-02-01"); d.Until.IsZero() {
		t.Error("unpublishDate does not end")
	}
	if d := at("pubdate: 2026-02-01"); d.From.IsZero() {
		t.Error("pubdate does not begin")
	}
}

// What would be published as text, or with replaced bytes, gives a warning.
func TestWarningsAboutTheText(t *testing.T) {
	const front = "---\ntitle: x\ndate: 2026-01-31\n---\n"
	for text, want := range map[string]string{
		front + "a\n\n{{< figure src=\"/a.jpg\" >}}\n":            "src/a.md: line 7 has a shortcode of Hugo",
		front + "{{% notice %}}\n":                                "src/a.md: line 5 has a shortcode",
		front + "x\n{% highlight go %}\n":                         "src/a.md: line 6 has a shortcode",
		front + "`{{< x >}}`\n\n    {{< x >}}\n":                  "",
		front + "```\n{{< x >}}\n```\n{{ site.url }}\n":           "",
		strings.Replace(front, "title: x", "title: L\xe4ufer", 1): "src/a.md: the text is not UTF-8",
		front + "L\xe4ufer\n":                                     "src/a.md: the text is not UTF-8",
	} {
		d, err := Parse([]byte(text), source)
		if got := strings.Join(d.Warnings, "\n"); err != nil || (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// A comment after a value does not belong to it, and Front quotes a value that looks like one.
func TestCommentsAfterValues(t *testing.T) {
	d, err := Parse([]byte("---\ntitle: A # c\ndate: 2026-01-17 #when\nlastmod: 2026-01-18 # x\ntags: [a, 'b #1'] # c\n"+
		"description: x # y\nexpirydate: # never\n---\nhi\n"), source)
	if err != nil || d.Title != "A" || d.Date.Day() != 17 || d.Updated.Day() != 18 ||
		strings.Join(d.Tags, "|") != "a|b #1" ||
		d.Description != "x" || len(d.Warnings) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
	d, err = Parse([]byte("---\ntags: a, b # c\n---\nhi\n"), source)
	if err != nil || strings.Join(d.Tags, "|") != "a|b" {
		t.Errorf("%+v, %v", d, err)
	}
	var f Front
	f.Field("title", "A # c")
	if d, err = Parse([]byte(f.String()), source); err != nil || d.Title != "A # c" {
		t.Errorf("%+v, %v", d, err)
	}
}
