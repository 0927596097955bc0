// Package sourcetest is the suite that every kind of image source passes, against a
// server on this machine that speaks its protocol.
package sourcetest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/image/registry"
	"bakeoff/provision/image/source"
)

// Case is a server and what it has.
type Case struct {
	Source source.Source
	// Path follows the address of the server in that of the source. The address of a
	// Bare source has no https://.
	Path string
	Bare bool
	// Documents are what the server tells, and Files the files of images, both by their
	// paths. $SERVER in a document is the address of the server.
	Documents, Files map[string]string
	// Want is what Images returns, with $SERVER for the address of the server.
	Want []source.Image
	// Wrong are addresses that Check refuses.
	Wrong []string
}

// Server serves a Case.
type Server struct {
	*httptest.Server
	c Case

	mu     sync.Mutex
	asked  map[string]int
	ranges []string
	// replace has other answers, by path: a status or a text.
	status map[string]int
	text   map[string]string
	// cut ends the first answer with a file after this many bytes; 0 does not.
	cut map[string]int
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, c Case) *Server {
	t.Helper()
	s := &Server{c: c, asked: map[string]int{}, status: map[string]int{}, text: map[string]string{}, cut: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	path := r.URL.Path
	s.asked[path]++
	if h := r.Header.Get("Range"); h != "" {
		s.ranges = append(s.ranges, h)
	}
	status, text, cut := s.status[path], s.text[path], s.cut[path]
	delete(s.cut, path)
	document, isDocument := s.c.Documents[path]
	file, isFile := s.c.Files[path]
	s.mu.Unlock()
	switch {
	case status != 0:
		http.Error(w, "no", status)
	case text != "":
		fmt.Fprint(w, text)
	case isDocument:
		fmt.Fprint(w, strings.ReplaceAll(document, "$SERVER", s.URL))
	case isFile && cut > 0:
		w.Header().Set("Content-Length", fmt.Sprint(len(file)))
		fmt.Fprint(w, file[:cut])
	case isFile:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(file)))
	default:
		http.NotFound(w, r)
	}
}

// Address is that of the source.
func (s *Server) Address() string {
	if s.c.Bare {
		return strings.TrimPrefix(s.URL, "http://") + s.c.Path
	}
	return s.URL + s.c.Path
}

// change replaces an answer; a status of 0 and no text removes the change.
func (s *Server) change(path string, status int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status[path], s.text[path] = status, text
}

// Client is a client that does not wait between tries.
func Client() *source.Client {
	now := func(context.Context, time.Duration) error { return nil }
	return &source.Client{Registry: &registry.Client{Arch: "amd64", Wait: now}, Wait: now}
}

// askedRanges are the parts of files that were asked for since the last call.
func (s *Server) askedRanges() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := strings.Join(s.ranges, " ")
	s.ranges = nil
	return r
}

// Run runs the suite.
func Run(t *testing.T, c Case) {
	t.Run("doc", func(t *testing.T) { testDoc(t, c) })
	t.Run("list", func(t *testing.T) { testList(t, c) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, c) })
	t.Run("download", func(t *testing.T) { testDownload(t, c) })
}

func testDoc(t *testing.T, c Case) {
	d := c.Source.Doc()
	if d.Kind == "" || strings.ToLower(d.Kind) != d.Kind || d.Summary == "" || d.Address == "" {
		t.Errorf("%+v", d)
	}
	for _, wrong := range append([]string{"", "a b", "ftp://host/x", "https://", "https://user@host/x?y"}, c.Wrong...) {
		if err := c.Source.Check(wrong); !fault.Is(err, fault.Invalid) || fault.Fix(err) == "" {
			t.Errorf("address %q: %v", wrong, err)
		}
	}
}

func testList(t *testing.T, c Case) {
	s := Start(t, c)
	if err := c.Source.Check(s.Address()); err != nil {
		t.Error(err)
	}
	all, err := c.Source.Images(t.Context(), Client(), s.Address())
	if err != nil {
		t.Fatal(err)
	}
	if got := withoutServer(s, all); !reflect.DeepEqual(got, c.Want) {
		t.Errorf("the server has\n%+v\nand not\n%+v", got, c.Want)
	}
	for _, i := range all {
		one, err := source.FindImage(t.Context(), c.Source, Client(), s.Address(), i.ID)
		if err != nil || !reflect.DeepEqual(one, i) {
			t.Errorf("%s: %+v, %v", i.ID, one, err)
		}
		if i.Refused == "" && i.Reference == "" && len(i.Files) == 0 {
			t.Errorf("%s can be imported and has no files", i.ID)
		}
	}
	for _, id := range []string{"none", "none:1", "", "00000000-0000-0000-0000-000000000000", "../../etc/passwd"} {
		if _, err := source.FindImage(t.Context(), c.Source, Client(), s.Address(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("image %q: %v", id, err)
		}
	}
}

// withoutServer replaces the address of the server.
func withoutServer(s *Server, all []source.Image) []source.Image {
	out := []source.Image{}
	host := strings.TrimPrefix(s.URL, "http://")
	for _, i := range all {
		var files []source.File
		for _, f := range i.Files {
			f.URL = strings.ReplaceAll(f.URL, s.URL, "$SERVER")
			files = append(files, f)
		}
		i.Files, i.Reference = files, strings.ReplaceAll(i.Reference, host, "$SERVER")
		out = append(out, i)
	}
	return out
}

func testRefusals(t *testing.T, c Case) {
	s := Start(t, c)
	if _, err := c.Source.Images(t.Context(), Client(), s.Address()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	var paths []string
	for p := range s.asked {
		if _, ok := c.Documents[p]; ok && p != "/v2/" { // of no content
			paths = append(paths, p)
		}
	}
	s.mu.Unlock()
	if len(paths) == 0 {
		t.Fatal("no document was asked for")
	}
	for _, p := range paths {
		for _, damaged := range []string{"\x00", "<html>", strings.Repeat("[", 100_000), c.Documents[p] + "\x01",
			strings.Repeat("x", source.MaxDocument+1)} {
			s.change(p, 0, damaged)
			warned, client := 0, Client()
			client.Warn = func(string) { warned++ }
			all, err := c.Source.Images(t.Context(), client, s.Address())
			if err == nil && warned > 0 && len(all) > 0 {
				continue // what can be read is listed
			}
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%s of %d bytes, %.20q: %d images, %v", p, len(damaged), damaged, len(all), err)
			}
		}
		s.change(p, http.StatusInternalServerError, "")
		if _, err := c.Source.Images(t.Context(), Client(), s.Address()); !fault.Is(err, fault.Lab) || fault.Fix(err) == "" {
			t.Errorf("%s: a server that fails: %v", p, err)
		}
		s.change(p, 0, "")
	}
	s.Close()
	if _, err := c.Source.Images(t.Context(), Client(), s.Address()); !fault.Is(err, fault.Lab) {
		t.Errorf("a server that does not answer: %v", err)
	}
}

func testDownload(t *testing.T, c Case) {
	s := Start(t, c)
	all, err := c.Source.Images(t.Context(), Client(), s.Address())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		for _, f := range i.Files {
			path := strings.TrimPrefix(f.URL, s.URL)
			want := c.Files[path]
			if want == "" && i.Refused+i.Caveat != "" {
				continue
			}
			to := filepath.Join(t.TempDir(), "file")
			s.askedRanges() // of the file before
			s.mu.Lock()
			s.cut[path] = len(want) / 2
			s.mu.Unlock()
			if err := Client().Download(t.Context(), f, to); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(to); err != nil || string(got) != want {
				t.Errorf("%s: %d bytes, %v", f.Name, len(got), err)
			}
			if r := s.askedRanges(); r != fmt.Sprintf("bytes=%d-", len(want)/2) {
				t.Errorf("%s: the download asked again for %q", f.Name, r)
			}
			// A killed download left the beginning.
			if err := os.WriteFile(to, []byte(want[:3]), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Client().Download(t.Context(), f, to); err != nil {
				t.Errorf("%s after a killed download: %v", f.Name, err)
			}
			if r := s.askedRanges(); r != "bytes=3-" {
				t.Errorf("%s: after a killed download, bakeoff asked for %q", f.Name, r)
			}
			if err := os.WriteFile(to, []byte(strings.Repeat("x", len(want)/3)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Client().Download(t.Context(), f, to); err != nil {
				t.Errorf("%s after other bytes: %v", f.Name, err)
			}
			changed := []byte(want)
			changed[len(changed)/2] ^= 1
			s.change(path, 0, string(changed))
			if err := os.Remove(to); err != nil {
				t.Fatal(err)
			}
			if err := Client().Download(t.Context(), f, to); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s, changed: %v", f.Name, err)
			}
			if _, err := os.Stat(to); err == nil {
				t.Errorf("%s, changed, was kept", f.Name)
			}
			s.change(path, 0, "")
		}
	}
}
