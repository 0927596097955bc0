package editor

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/publish/pagetest"
	"bakeoff/publish/site"
)

// desk is an editor of a site, with a client that opened its page.
type desk struct {
	dir    string
	server *httptest.Server
	editor *Editor
	client *http.Client
}

const tide = "---\ntitle: Tide\ndate: 2025-01-02\nslug: tide\n---\n\nIt **rises**.\n"

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blog")
	if err := site.Init(dir, "Harbor", time.Now()); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "src/tide.md", tide)
	put(t, dir, "src/other.md", "---\ntitle: Other\ndate: 2025-01-02\nslug: other\n---\n\nText.\n")
	put(t, dir, "drafts/idea.md", "---\ntitle: Idea\ndate: 2025-01-03\nslug: idea\n---\n\nAn idea.\n")
	s, err := site.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	opt := site.Option{Program: "test"}
	if _, err := s.Build(opt); err != nil {
		t.Fatal(err)
	}
	d := &desk{dir: dir, editor: New(dir, opt, http.FileServer(http.Dir(filepath.Join(dir, "output"))))}
	d.server = httptest.NewServer(d.editor)
	t.Cleanup(d.server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d.client = &http.Client{Jar: jar, Timeout: time.Minute}
	answer, err := d.client.Get(d.address())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if page, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 || !strings.Contains(string(page), d.editor.token) {
		t.Fatalf("the page: %d\n%s", answer.StatusCode, page)
	}
	return d
}

// address is that of the page, with its key.
func (d *desk) address() string { return d.server.URL + "/" + d.editor.Start() }

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) textOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ask sends a call as the page does; change may make it another one.
func (d *desk) ask(t *testing.T, name string, c call, change func(*http.Request)) (int, answer) {
	t.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, d.server.URL+Prefix+name, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", d.server.URL)
	r.Header.Set("X-Bakeoff-Token", d.editor.token)
	client := d.client
	if change != nil {
		change(r)
	}
	if r.Header.Get("No-Cookie") != "" {
		client = &http.Client{Timeout: time.Minute}
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	var a answer
	_ = json.NewDecoder(got.Body).Decode(&a) // a refusal is no JSON
	return got.StatusCode, a
}

func (d *desk) read(t *testing.T, name string) answer {
	t.Helper()
	status, a := d.ask(t, "read", call{File: name}, nil)
	if status != 200 {
		t.Fatalf("read %s: %d %+v", name, status, a)
	}
	return a
}

// Only the page itself may ask: not another page, another name of this machine, or another user.
func TestRefusedRequests(t *testing.T) {
	d := newDesk(t)
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"another host":       {func(r *http.Request) { r.Host = "rebound.example" }, 421},
		"another origin":     {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		"no origin":          {func(r *http.Request) { r.Header.Del("Origin") }, 403},
		"another site":       {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"no token":           {func(r *http.Request) { r.Header.Del("X-Bakeoff-Token") }, 403},
		"another token":      {func(r *http.Request) { r.Header.Set("X-Bakeoff-Token", "x") }, 403},
		"a form":             {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 403},
		"no cookie":          {func(r *http.Request) { r.Header.Set("No-Cookie", "1") }, 403},
		"GET":                {func(r *http.Request) { r.Method = http.MethodGet }, 405},
		"POST to the site":   {func(r *http.Request) { r.URL.Path = "/" }, 405},
		"a call that is not": {func(r *http.Request) { r.URL.Path = Prefix + "delete" }, 404},
		"the page by a wrong key": {func(r *http.Request) {
			r.Method, r.URL.Path, r.URL.RawQuery = http.MethodGet, Prefix, "key=x"
			r.Header.Set("No-Cookie", "1")
		}, 403},
	} {
		status, a := d.ask(t, "save", call{File: "src/tide.md", Text: "x", Digest: d.read(t, "src/tide.md").Digest}, c.change)
		if status != c.status || a.Text != "" {
			t.Errorf("%s: %d %+v, want %d", name, status, a, c.status)
		}
	}
	if d.textOf(t, "src/tide.md") != tide {
		t.Error("a refused request changed the file")
	}
}

// No path outside of the posts, pages and drafts is read or written.
func TestOtherFilesAreRefused(t *testing.T) {
	d := newDesk(t)
	secret := filepath.Join(filepath.Dir(d.dir), "secret.md")
	put(t, filepath.Dir(d.dir), "secret.md", "secret words")
	put(t, d.dir, "static/a.md", "x")
	put(t, d.dir, "src/.hidden.md", "x")
	put(t, d.dir, "src/a.txt", "x")
	for link, to := range map[string]string{"src/link.md": secret, "src/folder": ".."} {
		if err := os.Symlink(to, filepath.Join(d.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", ".", "config.sh.local", "../secret.md", "src/../../secret.md", "src", "src/",
		"src/../config.sh.local", secret, "static/a.md", "src/.hidden.md", "src/a.txt", "src/link.md", "src//tide.md",
		"output/index.html",
		`src\..\..\secret.md`, "src/folder/config.sh.local", "src/folder/../secret.md", "src/none.md", "src/tide.md\x00"} {
		for _, what := range []string{"read", "check", "save", "publish"} {
			status, a := d.ask(t, what, call{File: name, Text: tide}, nil)
			if status == 200 || strings.Contains(a.Text, "secret") {
				t.Errorf("%s %q: %d %+v", what, name, status, a)
			}
		}
	}
	if text, _ := os.ReadFile(secret); string(text) != "secret words" {
		t.Error("the secret changed")
	}
	if status, a := d.ask(t, "new", call{Title: "../../../escape", Kind: "post"}, nil); status != 200 ||
		!strings.HasPrefix(a.File, "src/") {
		t.Errorf("new: %d %+v", status, a)
	}
}

// A text is saved if nobody changed the file, and if the site builds with it.
func TestSave(t *testing.T) {
	d := newDesk(t)
	opened := d.read(t, "src/tide.md")
	text := strings.Replace(tide, "rises", "falls", 1)
	status, saved := d.ask(t, "save", call{File: "src/tide.md", Text: text, Digest: opened.Digest}, nil)
	if status != 200 || saved.Digest == opened.Digest || d.textOf(t, "src/tide.md") != text {
		t.Fatalf("save: %d %+v", status, saved)
	}
	status, stale := d.ask(t, "save", call{File: "src/tide.md", Text: "mine", Digest: opened.Digest}, nil)
	if status == 200 || d.textOf(t, "src/tide.md") != text {
		t.Errorf("a stale save: %d %+v", status, stale)
	}
	put(t, d.dir, "src/tide.md", tide+"by another program\n")
	status, conflict := d.ask(t, "save", call{File: "src/tide.md", Text: text, Digest: saved.Digest}, nil)
	if status != 409 || !strings.Contains(conflict.Text, "by another program") || conflict.Digest == saved.Digest ||
		!strings.Contains(d.textOf(t, "src/tide.md"), "by another program") {
		t.Errorf("a conflict: %d %+v", status, conflict)
	}
	if status, a := d.ask(t, "save", call{File: "src/tide.md", Text: text, Digest: conflict.Digest}, nil); status != 200 {
		t.Errorf("after the conflict: %d %+v", status, a)
	}

	for name, broken := range map[string]string{"a date": strings.Replace(text, "2025-01-02", "soon", 1),
		"the address of another post": strings.Replace(text, "slug: tide", "slug: other", 1),
		"a run that is not there":     text + "\n![x](run:20990101T000000Z-none)\n"} {
		now := d.read(t, "src/tide.md")
		status, a := d.ask(t, "save", call{File: "src/tide.md", Text: broken, Digest: now.Digest}, nil)
		if status != 422 || a.Problem == "" || d.textOf(t, "src/tide.md") != text {
			t.Errorf("%s: %d %+v", name, status, a)
		}
	}
	draft := d.read(t, "drafts/idea.md")
	broken := strings.Replace(draft.Text, "2025-01-03", "soon", 1)
	status, a := d.ask(t, "save", call{File: "drafts/idea.md", Text: broken, Digest: draft.Digest}, nil)
	if status != 200 || !strings.Contains(a.Problem, "drafts/idea.md:3") || d.textOf(t, "drafts/idea.md") != broken {
		t.Errorf("a draft with a mistake: %d %+v", status, a)
	}
	if status, a := d.ask(t, "publish", call{File: "drafts/idea.md", Digest: a.Digest}, nil); status != 422 {
		t.Errorf("a draft with a mistake is published: %d %+v", status, a)
	}
}

func TestNewAndPublish(t *testing.T) {
	d := newDesk(t)
	status, a := d.ask(t, "new", call{Title: "Next year", Kind: "post", Date: "2999-01-01T08:00"}, nil)
	if status != 200 || a.File != "src/2999-01-01-next-year.md" {
		t.Fatalf("%d %+v", status, a)
	}
	if status, a := d.ask(t, "new", call{Title: "Next year", Kind: "post", Date: "2999-01-01T08:00"}, nil); status != 422 {
		t.Errorf("the same post again: %d %+v", status, a)
	}
	draft := d.read(t, "drafts/idea.md")
	if status, a := d.ask(t, "publish", call{File: "drafts/idea.md", Digest: "old"}, nil); status != 409 {
		t.Errorf("publish another text: %d %+v", status, a)
	}
	status, a = d.ask(t, "publish", call{File: "drafts/idea.md", Digest: draft.Digest}, nil)
	if status != 200 || a.File != "src/idea.md" || d.textOf(t, "src/idea.md") != draft.Text {
		t.Errorf("%d %+v", status, a)
	}
	_, list := d.ask(t, "list", call{}, nil)
	scheduled := false
	for _, p := range list.Posts {
		scheduled = scheduled || p.Title == "Next year" && !p.Published
	}
	if len(list.Posts) != 6 || !scheduled {
		t.Errorf("%+v", list.Posts)
	}
}

// The editor as a browser shows it, and a post that is edited in it.
func TestEditorInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	d := newDesk(t)
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, map[string]string{"Token": "t", "Title": "Harbor"}); err != nil {
		t.Fatal(err)
	}
	put(t, d.dir, "editor.html", page.String())
	pagetest.Valid(t, filepath.Join(d.dir, "editor.html"))
	b.Look(t, d.address(), pagetest.Budget{Bytes: 60_000, Requests: 6, Shift: .05})
	t.Run("open", func(t *testing.T) { // a post that is open, and its preview
		b.Look(t, d.address()+"#drafts/idea.md", pagetest.Budget{Bytes: 120_000, Requests: 12, Shift: .05})
	})
	const edit = `new Promise(async (done, failed) => {
		const until = async (what, holds) => {
			for (let i = 0; i < 600; i++) {
				try { if (holds()) return; } catch (e) {}
				await new Promise(r => setTimeout(r, 50));
			}
			done('after 30 s: ' + what + ': ' + document.body.innerText);
			throw new Error(what);
		};
		const at = id => document.getElementById(id);
		const button = title => [...document.querySelectorAll('#posts button')].find(b => b.textContent.startsWith(title));
		await until('the list', () => button('Tide'));
		button('Tide').click();
		await until('the text', () => at('text').value.includes('rises'));
		await until('the preview', () => at('preview').contentDocument.body.textContent.includes('rises'));
		at('text').value = at('text').value.replace('rises', 'turns');
		at('text').dispatchEvent(new Event('input'));
		await until('the new preview', () => at('preview').contentDocument.body.textContent.includes('turns'));
		await until('its style', () => getComputedStyle(at('preview').contentDocument.body).margin === '0px');
		document.dispatchEvent(new KeyboardEvent('keydown', {key: 's', ctrlKey: true, cancelable: true}));
		await until('the answer', () => at('status').textContent.startsWith('Saved'));
		at('text').value = at('text').value.replace('2025-01-02', 'soon');
		at('text').dispatchEvent(new Event('input'));
		await until('the problem', () => at('problems').textContent.includes('src/tide.md:3'));
		at('text').value = at('text').value.replace('soon', '2025-01-02');
		at('text').dispatchEvent(new Event('input'));
		await until('no problem', () => at('problems').hidden);
		done('edited');
	})`
	if got := b.Evaluate(t, d.address(), edit); got != "edited" {
		t.Errorf("%s", got)
	}
	if !strings.Contains(d.textOf(t, "src/tide.md"), "It **turns**.") {
		t.Error("the file is not saved")
	}
}
