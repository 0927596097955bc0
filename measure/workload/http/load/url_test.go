package load

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/responder"
)

func TestURLsThereAndBack(t *testing.T) {
	want := []URL{
		{Path: "/", Length: -1},
		{Path: "/a%20b?c=d", Length: 12, Sum: SumOf([]byte("x"))},
		{Path: "/empty", Length: 0},
		{Path: "/old", Length: -1, Status: 301},
		{Path: "/node/1", Length: -1, Contains: "100 % sure & \"safe\"", Min: 10, Max: 20},
	}
	got, err := ParseURLs(FormatURLs(want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestListsThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "contains no URL",
		"# only a remark\n\n":             "contains no URL",
		"/a\nindex.html":                  "line 2: invalid path \"index.html\"",
		"/a size=3":                       "line 1: unknown field \"size\"",
		"/a length=-1":                    "length: -1 is negative",
		"/a status=99":                    "status must be",
		"/a sha256=abc":                   "sha256 must be",
		"/a contains=%zz":                 "invalid URL escape",
		"/a length=3 contains=x":          "use either length",
		"/a min=5 max=4":                  "max=4 is less",
		"/a max=99999999999":              "a length must be",
		"/" + strings.Repeat("a", 9000):   "token too long",
		strings.Repeat("/a\n", maxURLs+1): fmt.Sprintf("line %d: more than", maxURLs+1),
	} {
		if _, err := ParseURLs([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
}

func FuzzParseURLs(f *testing.F) {
	f.Add([]byte("/index.html length=5\n# x\n/b contains=a+b min=1 max=2 status=200\n"))
	f.Add([]byte("/ sha256=" + SumOf(nil)))
	f.Add([]byte("/a\r\n/b\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		urls, err := ParseURLs(text)
		if err != nil {
			return
		}
		again, err := ParseURLs(FormatURLs(urls))
		if err != nil || !reflect.DeepEqual(again, urls) {
			t.Fatalf("%+v became %+v, %v", urls, again, err)
		}
		for _, u := range urls {
			if a, err := newAsk(u, &load{host: "h", keepalive: true}); err != nil || bytes.Count(a.request, crlf) != 3 {
				t.Fatalf("%+v makes the request %q, %v", u, a.request, err)
			}
		}
	})
}

// pages answers requests for the files of a site, with what change makes of
// the right body; it counts what was asked for.
func pages(t *testing.T, site webroot.Site, change func(path string, body []byte) []byte) (addr string,
	asked func() map[string]int) {
	t.Helper()
	var mu sync.Mutex
	count := map[string]int{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	one := func(c net.Conn) {
		defer c.Close()
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf) // requests are small, and one at a time
			if err != nil {
				return
			}
			path := strings.Fields(string(buf[:n]))[1]
			mu.Lock()
			count[path]++
			mu.Unlock()
			f, ok := site.ByURL(path)
			status, body := "200 OK", f.Body
			if !ok {
				status, body = "404 Not Found", []byte("no")
			}
			if change != nil {
				body = change(path, body)
			}
			fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n", status, len(body))
			if _, err := c.Write(body); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go one(c)
		}
	}()
	return l.Addr().String(), func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// listFile writes a list where the loop reads it.
func listFile(t *testing.T, urls []URL) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "urls")
	if err := os.WriteFile(file, FormatURLs(urls), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func allOf(t *testing.T, site webroot.Site) []URL {
	t.Helper()
	var urls []URL
	for _, f := range site.Shuffled(1) {
		urls = append(urls, URL{Path: f.URL(), Length: int64(len(f.Body)), Sum: f.Sum()})
	}
	return urls
}

// listed are parameters that take what is expected from a list.
func listed(file string, more ...string) []string {
	return append([]string{"list=" + file, "length=-1", "sha256="}, more...)
}

// All files are asked for equally often, each answer is held against its own
// file, and a wrong one among them is an error each time.
func TestEveryURLIsCheckedAgainstItsOwn(t *testing.T) {
	site := webroot.Example()
	file := listFile(t, allOf(t, site))
	for _, engine := range engines {
		for _, threads := range []string{"1", "2"} {
			addr, asked := pages(t, site, nil)
			r := generate(t, addr, listed(file, "time=400ms", "connections=4", "threads="+threads, "engine="+engine)...)
			if len(r.Errors) > 0 || !r.Check.Verified || r.Work == 0 || r.Check.Answer != "sha256:"+ListSum(allOf(t, site)) {
				t.Fatalf("%s: errors %v, check %+v", engine, r.Errors, r.Check)
			}
			least, most := 1<<30, 0
			for _, f := range site.Files {
				n := asked()[f.URL()]
				least, most = min(least, n), max(most, n)
			}
			// Cycles of two threads may be apart; and there is the warm-up.
			if r.Work > 1000 && float64(least) < 0.5*float64(most)-4 {
				t.Errorf("%s: one file was asked for %d times, another %d", engine, least, most)
			}
		}
		bad := 0
		addr, _ := pages(t, site, func(path string, body []byte) []byte {
			if path != "/style.css" {
				return body
			}
			bad++ // there is one connection
			return bytes.ToUpper(body)
		})
		r := generate(t, addr, listed(file, "time=200ms", "connections=1", "engine="+engine)...)
		if n := r.Errors["wrong body"]; n == 0 || n != int64(bad) || len(r.Errors) != 1 || r.Work == 0 {
			t.Errorf("%s: %d altered pages, errors %v", engine, bad, r.Errors)
		}
		// The answer to another question is wrong as well.
		addr, _ = pages(t, site, func(path string, body []byte) []byte { return site.Home().Body })
		r = generate(t, addr, listed(file, "time=100ms", "connections=2", "engine="+engine)...)
		if http.Failures(r.Errors) == 0 || r.Work == 0 || http.Failures(r.Errors) < int64(10*r.Work) {
			t.Errorf("%s: one page for all: %g right, errors %v", engine, r.Work, r.Errors)
		}
	}
}

// Dynamic pages are compared with their rule.
func TestBodiesThatVary(t *testing.T) {
	site, err := webroot.New(webroot.File{Name: webroot.Home})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	long := strings.Repeat("z", 70<<10) // more than one read takes
	for _, c := range []struct {
		name, want string
		rule       URL
		body       func() string
	}{
		{"right", "", URL{Contains: "hello & more", Min: 12, Max: 100 << 10},
			func() string { n++; return fmt.Sprint(long, n, "hello & more", n) }},
		{"no text", "wrong body", URL{Contains: "hello"}, func() string { return "hell" }},
		{"too short", "short body", URL{Min: 10}, func() string { return "hello" }},
		{"too long", "wrong body", URL{Max: 3}, func() string { return "hello" }},
		{"bounds alone", "", URL{Min: 1, Max: 9}, func() string { n++; return strings.Repeat("x", 1+n%9) }},
		{"status", "", URL{Status: 404, Min: 1}, func() string { return "gone" }},
		{"other status", "status 404", URL{Status: 200, Min: 1}, func() string { return "gone" }},
	} {
		u := c.rule
		u.Path, u.Length = "/", -1
		if strings.Contains(c.name, "status") {
			u.Path = "/none"
		}
		file := listFile(t, []URL{u})
		for _, engine := range engines {
			addr, _ := pages(t, site, func(string, []byte) []byte { return []byte(c.body()) })
			length := "time=60ms"
			if c.want == "" { // at least one response must come in time
				length = "time=300ms"
			}
			r := generate(t, addr, listed(file, length, "connections=1", "engine="+engine)...)
			if c.want == "" && (len(r.Errors) > 0 || r.Work == 0 || !r.Check.Verified) || c.want != "" &&
				(r.Errors[c.want] == 0 || r.Work > 0 || len(r.Errors) != 1) {
				t.Errorf("%s, %s: %g requests, errors %v, check %+v", c.name, engine, r.Work, r.Errors, r.Check)
			}
		}
	}
}

// Once every body and every head is known, a response costs no memory.
func TestNoAllocationForEachRequest(t *testing.T) {
	site := webroot.Example()
	var asks []*ask
	var stream [][]byte
	for _, u := range append(allOf(t, site), URL{Path: "/d", Length: -1, Contains: "blog"}) {
		a, err := newAsk(u, &load{addr: netip.MustParseAddrPort("127.0.0.1:80"), keepalive: true})
		if err != nil {
			t.Fatal(err)
		}
		f, ok := site.ByURL(u.Path)
		if !ok {
			f.Body = []byte("a blog that varies")
		}
		asks, stream = append(asks, a), append(stream, responder.Response(http.One, f.Body))
	}
	l := newList(asks)
	var r reader
	cycle := func() {
		for _, b := range stream {
			r.body.expect = l.next()
			r.reset()
			half := len(b) / 2 // in two pieces
			if _, done, err := r.readBytes(b[:half]); done || err != nil {
				t.Fatal(done, err)
			}
			if _, done, err := r.readBytes(b[half:]); !done || err != nil || r.verdict() != "" {
				t.Fatal(done, err, r.verdict())
			}
		}
	}
	cycle()
	cycle()
	if n := testing.AllocsPerRun(20, cycle); n > 0 {
		t.Errorf("%g allocations for %d responses", n, len(stream))
	}
}

func TestLoopRefusesLists(t *testing.T) {
	dir := t.TempDir()
	good := listFile(t, []URL{{Path: "/", Length: -1}})
	many := listFile(t, make([]URL, 100))
	if err := os.WriteFile(many, bytes.Repeat([]byte("/a\n"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"list=" + dir}, {"list=" + dir + "/none"}, {"list=" + good, "length=4"},
		{"list=" + many, "engine=portable", "connections=10000"},
	} {
		p, err := param.ParseArgs(loopParams, append([]string{"addr=127.0.0.1:80"}, args...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseLoad(p); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
