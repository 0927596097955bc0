package site

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/publish/report"
	"bakeoff/publish/site"
	"bakeoff/publish/site/editor"
)

func (w writer) serve() *cobra.Command {
	var port int
	var opt site.Option
	var once, edit bool
	c := &cobra.Command{
		Use:   "serve [SITE]",
		Short: "Build the site and serve it to a browser on this machine",
		Long: `serve builds the site and serves it on 127.0.0.1 only. It builds again when a file
changes. Ctrl-C ends it.

With --edit, it also serves an editor. The editor lists the posts, and shows the text of a
post, a live preview, and the problems that a build would report. Open the address that
serve prints. The address contains a secret key, so other users of this machine cannot use
the editor. The editor changes only posts, pages and drafts of the site. It saves a file in
one step, and only if nobody else changed it in the meantime. Ctrl+S saves.`,
		Example: "  bakeoff site serve blog\n  bakeoff site serve --drafts --future --port 8000 blog\n" +
			"  bakeoff site serve --edit blog",
		Args: cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := cli.CheckPort(c, port); err != nil {
				return err
			}
			dir := folder(args)
			r, err := w.buildOnce(dir, opt, false, false)
			if err != nil {
				return err
			}
			root, err := os.OpenRoot(r.Output)
			if err != nil {
				return fault.Wrap(fault.Lab, "serve", err)
			}
			defer root.Close()
			// A build that has begun ends before serve does.
			var builds sync.WaitGroup
			defer builds.Wait()
			ctx, stop := w.Interruptible(c.Context())
			defer stop()
			if !once {
				builds.Go(func() {
					w.follow(ctx, dir, r.Next, func() (time.Time, error) {
						r, err := w.buildOnce(dir, opt, false, true)
						return r.Next, err
					})
				})
			}
			if !edit {
				return w.Serve(ctx, handler(root.FS()), "", port)
			}
			opt.Program, opt.Report = cli.Program(w.version), offline.PageOption(w.version, string(report.ByEstimate))
			e := editor.New(dir, opt, handler(root.FS()))
			return w.ServeGuarded(ctx, e, e.Start(), port)
		},
	}
	f := c.Flags()
	f.IntVar(&port, "port", 0, "`port` to listen on; 0 selects a free one")
	f.BoolVar(&opt.Drafts, "drafts", false, "show drafts too")
	f.BoolVar(&opt.Future, "future", false, "also show posts with a date in the future")
	f.BoolVar(&edit, "edit", false, "serve an editor too")
	f.BoolVar(&once, "once", false, "do not build again when a file changes")
	return c
}

// handler serves built files.
func handler(files fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "SAMEORIGIN")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" || strings.HasSuffix(name, "/") {
			name += "index.html"
		}
		info, err := fs.Stat(files, name)
		if !fs.ValidPath(name) || err != nil {
			notFound(w, files)
			return
		}
		if info.IsDir() {
			http.Redirect(w, r, "/"+name+"/", http.StatusMovedPermanently)
			return
		}
		text, err := fs.ReadFile(files, name)
		if err != nil || !info.Mode().IsRegular() {
			notFound(w, files)
			return
		}
		if kind, ok := kinds[path.Ext(name)]; ok {
			h.Set("Content-Type", kind)
		}
		http.ServeContent(w, r, name, info.ModTime(), bytes.NewReader(text))
	})
}

func notFound(w http.ResponseWriter, files fs.FS) {
	text, err := fs.ReadFile(files, "404.html")
	if err != nil {
		text = []byte("not found")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusNotFound)
	w.Write(text)
}

// kinds are the types of a site's files, whatever the machine's tables say.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".json": "application/json", ".xml": "application/xml",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".ndjson": "application/x-ndjson",
	".yaml": "text/plain; charset=utf-8", ".csv": "text/csv; charset=utf-8"}
