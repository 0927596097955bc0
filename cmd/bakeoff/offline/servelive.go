package offline

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/lock"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/store"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

const (
	liveStyle = `body{background:Canvas;color:CanvasText;font:1rem/1.5 system-ui,sans-serif;max-width:60rem;` +
		`margin:0 auto;padding:1.5rem 1rem;overflow-wrap:anywhere}pre{overflow-x:auto;overflow-wrap:normal;line-height:1.35}`
	// liveScript asks for the page again when the run has got further.
	liveScript = `const e=new EventSource("events");` +
		`async function show(){const r=await fetch("live");if(!r.ok)return;` +
		`const d=new DOMParser().parseFromString(await r.text(),"text/html");` +
		`document.getElementById("main").replaceWith(d.getElementById("main"))}` +
		`e.onmessage=show;e.addEventListener("end",()=>{e.close();show()});`
)

//go:embed serve.html
var serveHTML string

var serveTemplate = template.Must(template.New("serve").Funcs(template.FuncMap{
	// Both are inserted as they are: the policy names their hashes.
	"style":  func() template.HTML { return "<style>" + liveStyle + "</style>" },
	"script": func() template.HTML { return "<script>" + liveScript + "</script>" },
}).Parse(serveHTML))

// livePolicy permits one style sheet and one script, by their hashes, and requests to
// this server.
var livePolicy = "default-src 'none'; style-src " + report.HashSource(liveStyle) +
	"; script-src " + report.HashSource(liveScript) +
	"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// livePage is what the template shows: a run, or a folder of runs.
type livePage struct {
	Title, State, Problem, Looks, Page string
	Going                              bool
	Lines                              []string
	Runs                               []liveEntry
}

// liveEntry is a run of a list: one that goes on has a State, another one what it measured.
type liveEntry struct {
	Name, Href, State string
	Run               *report.Entry
}

// maxWatchers bounds the browsers that wait for events of one run.
const maxWatchers = 64

// watched is a run that is served while it goes on. It reads the folder once for all
// browsers, at most once a second, and computes results only after a block.
type watched struct {
	run    *store.Run
	reader *evidence.Reader

	mu       sync.Mutex
	read     time.Time
	page     livePage
	version  string // changes when the page does
	blocks   int    // lines of blocks that page.Lines covers
	watchers int
}

func newWatched(run *store.Run) *watched {
	return &watched{run: run, reader: evidence.NewReader(run, workloadall.Parsers()), blocks: -1}
}

// current returns the page of the run as it is now.
func (w *watched) current() (livePage, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.read) >= time.Second {
		politely(w.refresh)
		w.read = time.Now()
	}
	return w.page, w.version
}

// politely calls f on a thread of the lowest priority, so that reading a run does not
// take time from its measurement. The thread ends with f.
func politely(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread is not used again
		if runtime.GOOS == "linux" {
			_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
		}
		f()
	}()
	<-done
}

// refresh reads the run. It does not read raw output unless a block ended.
func (w *watched) refresh() {
	p := livePage{Title: safetext.Line(w.run.Base()), Lines: w.page.Lines, Looks: w.page.Looks}
	lines, err := w.run.Journal()
	if err != nil {
		p.Problem = safetext.Line(err.Error())
	}
	done, void, trials := 0, 0, 0
	last := ""
	for _, l := range lines {
		switch {
		case l.Type == store.LineTrial:
			trials++
		case l.Type == store.LineBlock && l.Status == store.OK:
			done++
		case l.Type == store.LineBlock:
			void++
		}
		last = l.Type
	}
	p.Going = lock.Held(filepath.Join(w.run.Dir(), store.JournalFile))
	switch {
	case p.Going:
		p.State = "The run continues: "
	case last == store.LineEnd:
		p.State = "The run ended: "
	default:
		p.State = "The run was interrupted: "
	}
	p.State += fmt.Sprintf("%d blocks done, %d void, %d trials.", done, void, trials)
	if info, err := fs.Stat(w.run.FS(), store.ReportFile); err == nil && info.Mode().IsRegular() && !p.Going {
		p.Page = "report/"
	}
	if done+void != w.blocks && done > 0 && err == nil {
		w.blocks = done + void
		if data, err := w.reader.Load(); err != nil {
			p.Problem, p.Lines = safetext.Line(err.Error()), nil
		} else {
			p.Lines, p.Looks = soFar(analysis.Analyse(data))
		}
	}
	w.page, w.version = p, fmt.Sprint(len(lines), p.Going, p.Page)
}

// soFar are the primary comparisons in lines, as run shows them on a terminal, and the
// planned looks.
func soFar(r analysis.Results) (lines []string, looks string) {
	const columns = 110
	primary := lists.Filter(r.Comparisons, func(c analysis.Comparison) bool { return c.Primary })
	l := LayoutFor(r, primary, columns)
	lines = append(lines, safetext.Line(l.Head(r.Baseline)))
	for _, c := range primary {
		lines = append(lines, safetext.Line(l.Line(c, r.Margin, cli.Style{})))
	}
	return lines, strings.Join(lists.Map(r.Looks, func(n int) string { return fmt.Sprint(n) }), ", ")
}

// serveLive serves the page of the run as it is now.
func (w *watched) serveLive(rw http.ResponseWriter) {
	p, _ := w.current()
	writeLive(rw, p)
}

func writeLive(rw http.ResponseWriter, p livePage) {
	var b bytes.Buffer
	if err := serveTemplate.Execute(&b, p); err != nil {
		http.Error(rw, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	h := rw.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", livePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	rw.Write(b.Bytes())
}

// sendEvents sends an event whenever the run has got further, and "end" when it is over. A
// browser that does not read for ten seconds is dropped.
func (w *watched) sendEvents(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	full := w.watchers >= maxWatchers
	if !full {
		w.watchers++
	}
	w.mu.Unlock()
	if full {
		http.Error(rw, "too many browsers watch this run", http.StatusServiceUnavailable)
		return
	}
	defer func() { w.mu.Lock(); w.watchers--; w.mu.Unlock() }()
	follow(w, rw, r)
}

// live is what a browser follows. The version changes when the page does.
type live interface {
	current() (page livePage, version string)
}

// follow sends the events of a page.
func follow(w live, rw http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(rw)
	send := func(text string) bool {
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second)) // not all writers have one
		_, err := fmt.Fprint(rw, text)
		return err == nil && c.Flush() == nil
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for seen := ""; ; {
		p, version := w.current()
		if !p.Going {
			send("event: end\ndata: over\n\n")
			return
		}
		if version != seen {
			if seen = version; !send("data: changed\n\n") {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// folderHandler serves the runs in a folder, and a list of them, the newest first.
type folderHandler struct {
	dir string

	mu   sync.Mutex
	runs map[string]http.Handler
	ends map[string]runsite.Entry // of the runs that ended, as they were read last
}

// maxDescribed bounds the runs that a list describes: reading one takes a few milliseconds.
const maxDescribed = 200

func (f *folderHandler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" || r.URL.Path == "/"+runsite.IndexFile {
		f.listRuns(rw)
		return
	}
	name, _, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok {
		http.Redirect(rw, r, (&url.URL{Path: "/" + name + "/"}).String(), http.StatusMovedPermanently)
		return
	}
	h, err := f.runHandler(name)
	if err != nil {
		http.NotFound(rw, r)
		return
	}
	http.StripPrefix("/"+name, h).ServeHTTP(rw, r)
}

// runHandler returns the handler of a run in the folder, which stays open.
func (f *folderHandler) runHandler(name string) (http.Handler, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h, ok := f.runs[name]; ok {
		return h, nil
	}
	for _, dir := range RunsIn(f.dir) {
		if filepath.Base(dir) != name {
			continue
		}
		run, err := store.Open(dir)
		if err != nil {
			return nil, err
		}
		f.runs[name] = liveHandler(run, runsite.IndexOfReport)
		return f.runs[name], nil
	}
	return nil, fault.New(fault.NotFound, "no run %s", name)
}

func (f *folderHandler) listRuns(rw http.ResponseWriter) {
	p := livePage{Title: "Runs"}
	all := RunsIn(f.dir)
	ends := f.describeEnded(all)
	for i := len(all) - 1; i >= 0; i-- {
		name, state := filepath.Base(all[i]), ""
		if lock.Held(filepath.Join(all[i], store.JournalFile)) {
			state = "running"
		}
		e := liveEntry{Name: safetext.Line(name), Href: (&url.URL{Path: "/" + name + "/"}).String(), State: state}
		if end, ok := ends[name]; ok && state == "" {
			e.Run = &end.Entry
		}
		p.Runs = append(p.Runs, e)
	}
	p.State = unit.Count(len(all), "run") + ", the newest first."
	writeLive(rw, p)
}

// describeEnded returns what the newest of the runs measured. It reads those that changed
// since the last call.
func (f *folderHandler) describeEnded(all []string) map[string]runsite.Entry {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	var names []string
	for _, dir := range all[max(0, len(all)-maxDescribed):] {
		if !lock.Held(filepath.Join(dir, store.JournalFile)) {
			names = append(names, filepath.Base(dir))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, _, _ := runsite.Read(root, names, f.ends, "", nil) // an entry says why it cannot be read
	f.ends = make(map[string]runsite.Entry, len(entries))
	for _, e := range entries {
		f.ends[e.Folder] = e
	}
	return f.ends
}

// liveHandler serves a run folder: its files, and while the run goes on, or has no page,
// its progress. index is the address of a list of runs, as runHandler wants it.
func liveHandler(run *store.Run, index string) http.Handler {
	w, files := newWatched(run), runHandler(run.FS(), index)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			to := "live"
			if p, _ := w.current(); p.Page != "" {
				to = p.Page
			}
			rw.Header().Set("Location", to)
			rw.WriteHeader(http.StatusFound)
		case "/live":
			w.serveLive(rw)
		case "/events":
			w.sendEvents(rw, r)
		default:
			files.ServeHTTP(rw, r)
		}
	})
}
