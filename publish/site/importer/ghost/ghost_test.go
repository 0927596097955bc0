package ghost

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{`{"db":[{"meta":{}`: true, "\ufeff{ \"meta\": {": true,
		`{"data":{"posts":[]`: true,
		`{"title": "x"}`:      false, `[]`: false, "": false} {
		if got := Is([]byte(text)); got != want {
			t.Errorf("Is(%q) = %v", text, got)
		}
	}
}

// bodyFrom returns the text of a post that has no HTML.
func bodyFrom(t *testing.T, key, document string) (string, []string) {
	t.Helper()
	quoted, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Read(strings.NewReader(`{"data":{"posts":[{"id":1,"title":"x","status":"draft","`+key+`":`+string(quoted)+
		`}]}}`), "x.json", time.UTC)
	if err != nil || len(e.Posts) != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	return e.Posts[0].Body, e.Notes
}

func TestLexical(t *testing.T) {
	got, notes := bodyFrom(t, "lexical", `{"root":{"children":[
		{"type":"extended-heading","tag":"h3","children":[{"type":"extended-text","text":"A & b","format":0}]},
		{"type":"paragraph","children":[{"type":"extended-text","text":"bold","format":3},{"type":"linebreak"},
			{"type":"link","url":"__GHOST_URL__/x/","children":[{"type":"text","text":"link","format":"16"}]}]},
		{"type":"list","listType":"number","children":[{"type":"listitem","children":[{"type":"text","text":"one"}]}]},
		{"type":"codeblock","code":"a < b","language":"go"},{"type":"horizontalrule"},
		{"type":"image","src":"__GHOST_URL__/content/images/a.png","alt":"\"","caption":"A <b>b</b>"},
		{"type":"markdown","markdown":"*x*"},{"type":"signup"}]}}`)
	want := `<h3>A &amp; b</h3><p><strong><em>bold</em></strong><br><a href="/-imported-/x/">link</a></p>` +
		`<ol><li>one</li></ol><pre><code class="language-go">a &lt; b</code></pre>` + "\n<hr>\n" +
		`<figure><img src="/content/images/a.png" alt="&#34;"><figcaption>A <b>b</b></figcaption></figure>` +
		"\n<p><em>x</em></p>\n"
	if got != want || len(notes) != 2 || !strings.Contains(notes[0], "signup") {
		t.Errorf("%s\nwant\n%s\n%q", got, want, notes)
	}
}

func TestMobiledoc(t *testing.T) {
	got, notes := bodyFrom(t, "mobiledoc", `{"version":"0.3.1","atoms":[["soft-return","",{}]],
		"markups":[["strong"],["a",["href","https://x.example/?a&b"]],["script"]],
		"cards":[["code",{"code":"x"}],["card-markdown",{"markdown":"# y"}],["mystery",{}]],
		"sections":[[1,"p",[[0,[],0,"a "],[0,[0,1],1,"b"],[0,[],1,"c"],[1,[],0,0],[0,[2],1,"<d>"]]],[10,0],[10,1],
			[3,"ul",[[[0,[],0,"e"]],[[0,[0],1,"f"]]]],[10,2]]}`)
	want := `<p>a <strong><a href="https://x.example/?a&amp;b">b</a>c</strong><br>&lt;d&gt;</p>` +
		"\n<pre><code>x</code></pre>\n<h1>y</h1>\n<ul><li>e</li><li><strong>f</strong></li></ul>\n"
	if got != want || len(notes) != 1 || !strings.Contains(notes[0], "mystery") {
		t.Errorf("%s\nwant\n%s\n%q", got, want, notes)
	}
	_, notes = bodyFrom(t, "mobiledoc", `{"sections":[[10,7]]}`)
	if !strings.Contains(strings.Join(notes, ""), "cannot read") {
		t.Errorf("a card that is not there: %q", notes)
	}
}

// Whatever a file is: no post is published that says it is not, and none without a date.
func FuzzRead(f *testing.F) {
	f.Add(`{"db":[{"meta":{},"data":{"posts":[{"id":"a","title":"x","status":"published","published_at":1388318990000,` +
		`"html":"<p>","visibility":"paid"}],"tags":[{"id":1,"name":"#x"}],"posts_tags":[{"post_id":"a","tag_id":1}]}}]}`)
	f.Add(`{"data":{"posts":[{"lexical":"{\"root\":{\"children\":[{\"type\":\"list\",\"children\":[{}]}]}}"}]}}`)
	f.Add(`{"data":{"posts":[{"mobiledoc":"{\"sections\":[[1,\"p\",[[0,[0],1,\"x\"]]],[10,-1],[3,\"ul\",[[]]]]}"}]}}`)
	f.Add(`{"data":{"posts":[{"id":{}}]}}`)
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Read(strings.NewReader(s), "x.json", time.UTC)
		if err != nil {
			return
		}
		for _, p := range e.Posts {
			if !p.Draft && p.Date.IsZero() {
				t.Errorf("%q: %+v is published without a date", s, p)
			}
		}
	})
}
