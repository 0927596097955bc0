// Package editor is the editor of `bakeoff site serve --edit`: a page for a browser on this
// machine, and what its script asks for. A request must name this machine, come from the
// editor's own page, and have the key that the address of the page had.
package editor

import (
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site"
	"bakeoff/publish/site/content"
)

// Prefix begins the addresses of the editor; everything else is the site.
const Prefix = "/-edit/"

//go:embed editor.html editor.css editor.js
var assets embed.FS

var pageTemplate = template.Must(template.ParseFS(assets, "editor.html"))

// Editor serves the editor of one site.
type Editor struct {
	dir   string
	opt   site.Option
	files http.Handler // the built site
	key   string       // of the address and the cookie
	token string       // of the page, which its script sends

	mu      sync.Mutex
	preview site.Tried
}

// New returns an editor of the site in dir. files serves the built site.
func New(dir string, opt site.Option, files http.Handler) *Editor {
	return &Editor{dir: dir, opt: opt, files: files, key: rand.Text(), token: rand.Text()}
}

// Start is the address of the page below that of the server, with the key.
func (e *Editor) Start() string { return strings.TrimPrefix(Prefix, "/") + "?key=" + e.key }

const cookie = "bakeoff-edit"

// policy lets the page load its own files only, and show the preview.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (e *Editor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, Prefix)
	if !isLocal(r.Host) {
		http.Error(w, "use 127.0.0.1 or localhost", http.StatusMisdirectedRequest)
		return
	}
	if !ok {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "use GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		e.files.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if given := r.URL.Query().Get("key"); name == "" && r.Method == http.MethodGet && same(given, e.key) {
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: e.key, Path: Prefix, HttpOnly: true,
			SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, Prefix, http.StatusSeeOther)
		return
	}
	if c, err := r.Cookie(cookie); err != nil || !same(c.Value, e.key) {
		http.Error(w, "open the address that bakeoff site serve --edit printed", http.StatusForbidden)
		return
	}
	if rest, ok := strings.CutPrefix(name, "preview/"); ok {
		e.servePreview(w, r, rest)
		return
	}
	switch name {
	case "", "editor.css", "editor.js":
		e.serveAsset(w, r, name)
	default:
		e.serveCall(w, r, name)
	}
}

// isLocal reports whether a request names this machine: a name that points here from elsewhere
// (DNS rebinding) is refused.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "127.0.0.1" || host == "localhost"
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func (e *Editor) serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	switch name {
	case "":
		s, err := site.Open(e.dir)
		title := ""
		if err == nil {
			title = s.Config.Title
			s.Close()
		}
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = pageTemplate.Execute(w, map[string]string{"Token": e.token, "Title": title})
		return
	case "editor.css":
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
	default:
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	}
	text, err := fs.ReadFile(assets, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Write(text)
}

// servePreview serves the post that was checked last at its own address below the preview, and the
// built site around it, so that its style sheet and its images are found.
func (e *Editor) servePreview(w http.ResponseWriter, r *http.Request, path string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	e.mu.Lock()
	preview := e.preview
	e.mu.Unlock()
	if path == preview.Path && preview.Page != nil {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("X-Frame-Options", "SAMEORIGIN")
		w.Write(preview.Page)
		return
	}
	copied := r.Clone(r.Context())
	copied.URL.Path = "/" + path
	e.files.ServeHTTP(w, copied)
}

// call is what the script sends.
type call struct {
	File   string `json:"file"`
	Text   string `json:"text"`
	Digest string `json:"digest"`
	Title  string `json:"title"`
	Kind   string `json:"kind"` // of a new file: post, page or draft
	Date   string `json:"date"`
}

// answer is what the script gets.
type answer struct {
	Posts    []site.Listed `json:"posts,omitempty"`
	File     string        `json:"file,omitempty"`
	Text     string        `json:"text"`
	Digest   string        `json:"digest,omitempty"`
	Preview  string        `json:"preview,omitempty"` // address
	Warnings []string      `json:"warnings,omitempty"`
	Problem  string        `json:"problem,omitempty"`
}

// serveCall answers the script. Only the editor's own page can ask: another page has neither the
// token nor the origin, and its cookie is not sent.
func (e *Editor) serveCall(w http.ResponseWriter, r *http.Request, name string) {
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	case r.Header.Get("Origin") != "http://"+r.Host || site != "" && site != "same-origin",
		!same(r.Header.Get("X-Bakeoff-Token"), e.token),
		!strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		http.Error(w, "only the page of the editor may send this request", http.StatusForbidden)
		return
	}
	var c call
	// JSON may write a character as six.
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 6*content.MaxFile))
	if err := d.Decode(&c); err != nil {
		writeAnswer(w, http.StatusBadRequest, answer{Problem: "the request is not JSON"})
		return
	}
	status, a := e.call(name, c)
	writeAnswer(w, status, a)
}

func writeAnswer(w http.ResponseWriter, status int, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

// call does what the script asks for.
func (e *Editor) call(name string, c call) (int, answer) {
	s, err := site.Open(e.dir)
	if err != nil {
		return failed(err)
	}
	defer s.Close()
	switch name {
	case "list":
		posts, err := s.List(time.Now())
		if err != nil {
			return failed(err)
		}
		return http.StatusOK, answer{Posts: posts}
	case "read":
		text, digest, err := s.ReadPost(c.File)
		if err != nil {
			return failed(err)
		}
		return http.StatusOK, answer{File: c.File, Text: text, Digest: digest}
	case "check":
		a, err := e.check(s, c)
		if err != nil {
			return failed(err)
		}
		return http.StatusOK, a
	case "save":
		return e.save(s, c)
	case "new":
		return e.create(s, c)
	case "publish":
		return e.publish(s, c)
	}
	return http.StatusNotFound, answer{Problem: "no such call"}
}

func failed(err error) (int, answer) {
	status := http.StatusUnprocessableEntity
	if fault.Is(err, fault.NotFound) {
		status = http.StatusNotFound
	}
	return status, answer{Problem: safetext.Text(err.Error())}
}

// check tries a text, and keeps its page for the preview.
func (e *Editor) check(s *site.Site, c call) (answer, error) {
	opt := e.opt
	opt.Now = time.Now()
	tried, err := s.Try(c.File, c.Text, opt)
	if err != nil {
		return answer{}, err
	}
	e.mu.Lock()
	e.preview = tried
	e.mu.Unlock()
	return answer{File: c.File, Preview: Prefix + "preview/" + tried.Path, Warnings: tried.Warnings}, nil
}

// save checks a text and saves it. A text with a mistake is saved in a draft only: the site would not
// build with it.
func (e *Editor) save(s *site.Site, c call) (int, answer) {
	a, problem := e.check(s, c)
	if problem != nil && !s.IsDraft(c.File) {
		return failed(problem)
	}
	digest, err := s.SavePost(c.File, c.Text, c.Digest)
	if errors.Is(err, site.ErrChanged) {
		text, digest, err := s.ReadPost(c.File)
		if err != nil {
			return failed(err)
		}
		return http.StatusConflict, answer{File: c.File, Text: text, Digest: digest,
			Problem: "the file changed on disk since you opened it; nothing is saved"}
	}
	if err != nil {
		return failed(err)
	}
	a.File, a.Digest = c.File, digest
	if problem != nil {
		a.Problem = safetext.Text(problem.Error())
	}
	return http.StatusOK, a
}

// create writes a new file from the template of `bakeoff site new`.
func (e *Editor) create(s *site.Site, c call) (int, answer) {
	date, err := s.Date(strings.Replace(c.Date, "T", " ", 1), time.Now())
	if err != nil {
		return failed(err)
	}
	name, err := s.New(site.Draft{Title: c.Title, Date: date, Page: c.Kind == "page", Draft: c.Kind == "draft",
		Body: "Write here.\n"})
	if err != nil {
		return failed(err)
	}
	return http.StatusOK, answer{File: name}
}

// publish moves a draft to the posts, if a build accepts it.
func (e *Editor) publish(s *site.Site, c call) (int, answer) {
	text, digest, err := s.ReadPost(c.File)
	if err != nil {
		return failed(err)
	}
	if digest != c.Digest || !s.IsDraft(c.File) {
		return http.StatusConflict, answer{File: c.File, Text: text, Digest: digest,
			Problem: "save the draft first; nothing is published"}
	}
	c.Text = text
	if _, err := e.check(s, c); err != nil {
		return failed(err)
	}
	to, err := s.Publish(site.Listed{File: c.File})
	if err != nil {
		return failed(err)
	}
	return http.StatusOK, answer{File: to}
}
