package wordpress

import (
	"strings"
	"testing"
	"time"
)

const begin = `<rss xmlns:excerpt="http://wordpress.org/export/1.2/excerpt/" ` +
	`xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:wp="http://wordpress.org/export/1.2/"><channel>`

func TestIs(t *testing.T) {
	https := strings.Replace(begin, "http://wordpress", "https://wordpress", 1)
	if !Is([]byte(begin)) || !Is([]byte(https)) || Is([]byte("<rss><channel>")) || Is(nil) {
		t.Error("the beginning of an export is not recognized")
	}
}

func TestParagraphs(t *testing.T) {
	for in, want := range map[string]string{
		"a\n\nb":                      "<p>a</p>\n<p>b</p>\n",
		"a\nb\n \n<h2>c</h2>":         "<p>a<br>\nb</p>\n<h2>c</h2>\n",
		"<em>a</em>\n\n<pre>b\n\nc\n": "<p><em>a</em></p>\n<pre>b\n<p>c</p>\n",
		"x<pre>b\n\nc</pre>y":         "<p>x</p>\n<pre>b\n\nc</pre>\n<p>y</p>\n",
		"":                            "",
	} {
		if got := paragraphs(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Control characters, which WordPress exports and XML forbids, do not end an import.
func TestControlCharacters(t *testing.T) {
	e, err := Read(strings.NewReader(begin+"<item><title>a\x08b</title><wp:post_type>post</wp:post_type>"+
		"<wp:status>publish</wp:status><wp:post_date>2024-01-01 00:00:00</wp:post_date></item></channel></rss>"),
		"x", time.UTC)
	if err != nil || len(e.Posts) != 1 || e.Posts[0].Title != "a b" {
		t.Errorf("%+v, %v", e, err)
	}
}

// Whatever a file is: no post is published that says it is not, and none without a date.
func FuzzRead(f *testing.F) {
	f.Add(begin + "<item><title>a</title><content:encoded><![CDATA[b\n\n[c d=e]]]></content:encoded><wp:status>draft" +
		"</wp:status><wp:post_type>post</wp:post_type><wp:post_date>2024-01-01 00:00:00</wp:post_date></item>" +
		"</channel></rss>")
	f.Add(begin + "<item><wp:post_type>page</wp:post_type></item></channel></rss>")
	f.Add("<rss><channel><item></channel>")
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Read(strings.NewReader(s), "x.xml", time.UTC)
		if err != nil {
			return
		}
		for _, p := range e.Posts {
			if !p.Draft && p.Date.IsZero() {
				t.Errorf("%q: %+v is published without a date", s, p)
			}
			if text := p.Text(); !strings.HasPrefix(text, "---\n") {
				t.Errorf("%q gives %q", s, text)
			}
		}
	})
}
