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
	} {
		out, draft, notes, err := FromHugo([]byte(text), "t.md")
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

func FuzzParse(f *testing.F) {
	for _, s := range []string{"---\ntitle: a\ndate: 2025-01-01\n---\nx", "---\n",
		"---\ntags: [a, 'b']\nslug: ../x\n---\n",
		"\ufeff---\r\ntitle: x\r\n---\r\n", "---\ndate: 0000-00-00\n---\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
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
	f.Fuzz(func(t *testing.T, s string) {
		out, _, _, err := FromHugo([]byte(s), "t.md")
		if err != nil {
			return
		}
		if d, err := Parse(out, source); err == nil && strings.Contains(d.Title, "\n") {
			t.Errorf("%q: title %q", s, d.Title)
		}
	})
}
