package offline

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/sleep"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/archive/index"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

// storeHandler serves the site of a store, and a list of its newest runs that follows it.
type storeHandler struct {
	reader
	x        *index.Index
	site     string // folder
	files    fs.FS
	watchers atomic.Int64

	mu    sync.Mutex
	page  livePage
	count int // of builds
}

// serveStore serves a store until a signal.
func (a reader) serveStore(c *cobra.Command, dir string, port int) error {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	x, err := a.open(ctx, dir)
	if err != nil {
		return err
	}
	defer x.Close()
	h := &storeHandler{reader: a, x: x, site: filepath.Join(dir, "site")}
	if err := h.build(ctx); err != nil {
		return err
	}
	root, err := os.OpenRoot(h.site)
	if err != nil {
		return fault.Wrap(fault.Lab, "serve", err)
	}
	defer root.Close()
	h.files = root.FS()
	var builds sync.WaitGroup
	defer builds.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	builds.Go(func() { h.followStore(ctx) })
	return a.Serve(ctx, h, "", port)
}

// retry is the time until a broken connection is opened again.
const retry = 2 * time.Second

// followStore builds the site again after each change. Changes during a build are one.
func (h *storeHandler) followStore(ctx context.Context) {
	changed := make(chan struct{}, 1)
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		for ctx.Err() == nil {
			err := h.x.Watch(ctx, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(h.Err, "bakeoff: "+safetext.Line(err.Error()))
			}
			_ = sleep.For(ctx, retry)
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		var err error
		politely(func() { err = h.build(ctx) })
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(h.Err, "bakeoff: the site was not built: "+safetext.Line(err.Error()))
		}
	}
}

// build builds the site, and the list of the newest runs.
func (h *storeHandler) build(ctx context.Context) error {
	sum, err := runsite.BuildStore(ctx, h.x, h.site, runsite.Option{Program: cli.Program(h.reader.version),
		Report: PageOption(h.reader.version, string(report.ByEstimate))})
	if err != nil {
		return err
	}
	runs, err := h.x.List(ctx, index.Filter{})
	if err != nil {
		return err
	}
	p := livePage{Title: "Runs of the store", Going: true,
		State: unit.Count(sum.Runs, "run") + ". This list of the newest follows the store.",
		Runs:  []liveEntry{{Name: "All pages", Href: "/" + runsite.IndexFile}}}
	for _, r := range runs {
		p.Runs = append(p.Runs, liveEntry{Name: safetext.Line(r.Name), Href: "/" + runsite.StoredPage(r.Began, r.Bundle),
			State: safetext.Line(fmt.Sprintf("on %s: %d better, %d equivalent, %d inconclusive, %d worse", r.Host, r.Better,
				r.Equivalent, r.Inconclusive, r.Worse))})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.page = p
	h.count++
	return nil
}

func (h *storeHandler) current() (livePage, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.page, fmt.Sprint(h.count)
}

func (h *storeHandler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch name := strings.TrimPrefix(r.URL.Path, "/"); name {
	case "", "live":
		p, _ := h.current()
		writeLive(rw, p)
	case "events":
		if h.watchers.Add(1); h.watchers.Load() > maxWatchers {
			h.watchers.Add(-1)
			http.Error(rw, "too many browsers watch this store", http.StatusServiceUnavailable)
			return
		}
		defer h.watchers.Add(-1)
		follow(h, rw, r)
	default:
		text, err := fs.ReadFile(h.files, name)
		if err != nil || path.Ext(name) != ".html" {
			http.NotFound(rw, r)
			return
		}
		header := rw.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", "frame-ancestors 'none'") // the page has its own policy, too
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		rw.Write(text)
	}
}
