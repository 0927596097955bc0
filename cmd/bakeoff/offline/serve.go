package offline

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/shell"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/store"
	"bakeoff/publish/bootpage"
	"bakeoff/publish/report"
)

func (a reader) serveCommand() *cobra.Command {
	var port int
	var dir string
	c := &cobra.Command{
		Use:   "serve RUN|FOLDER",
		Short: "Serve runs to a browser on this machine, also while they are running",
		Long: `serve serves the page of a run and the files that it links to, on 127.0.0.1 only. Ctrl-C
ends it. While the run continues, the page shows the progress and the estimates so far;
verdicts appear only at the interim analyses (looks) that the plan contains. For a folder
with several runs, serve lists them. The page is also a plain file: RUN/report/index.html
works without a server.

With --store, serve serves the site of a store of runs, and a list of the newest runs that
is always up to date. When runs are added, serve builds the site again, in the folder site
of the store. If the index of the store is in PostgreSQL, the database notifies serve of new
runs. If the index is a file of SQLite, serve reads this file each second.`,
		Example: `  bakeoff serve runs/20260102T030405Z-quick
  bakeoff serve runs
  bakeoff serve --store store
  bakeoff serve --port 8080 runs/20260102T030405Z-quick`,
		Args: cli.Between(0, 1, "a run folder, or a folder of runs"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := cli.CheckPort(c, port); err != nil {
				return err
			}
			if len(args) == 0 == (dir == "") {
				return cli.Usage(c, fmt.Errorf("name a run folder or a folder of runs, or a store with --store"))
			}
			if dir != "" {
				return a.serveStore(c, dir, port)
			}
			if len(RunsIn(args[0])) > 1 {
				return a.serveHere(c, &folderHandler{dir: filepath.Clean(args[0]), runs: map[string]http.Handler{}}, "", port)
			}
			run, err := openRun(args[0])
			if err != nil {
				return err
			}
			defer run.Close()
			folder, start := run.Dir(), strings.TrimSuffix(store.ReportFile, "index.html")
			if _, err := fs.Stat(run.FS(), store.ReportFile); err != nil {
				if start = ""; !lock.Held(filepath.Join(folder, store.JournalFile)) {
					return fault.WithFix(fault.New(fault.NotFound, "%s has no page", folder),
						"run bakeoff report "+shell.Quote(folder)+" to write it")
				}
			}
			a.warnUnplanned(folder)
			return a.serveHere(c, liveHandler(run, ""), start, port)
		},
	}
	c.Flags().IntVar(&port, "port", 0, "`port` to listen on; 0 selects a free one")
	c.Flags().StringVar(&dir, "store", "", "serve the site of the store in this `folder`")
	c.ValidArgsFunction = completeRuns
	return c
}

// serveHere serves a handler until a signal; start is the path to print.
func (a reader) serveHere(c *cobra.Command, h http.Handler, start string, port int) error {
	ctx, stop := a.Interruptible(c.Context())
	defer stop()
	return a.Serve(ctx, h, start, port)
}

// runHandler serves a run folder that may be a stranger's: only files, and only the page
// as HTML. The page has a link to the address index, relative to it; "" is without.
func runHandler(run fs.FS, index string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		report := path.Dir(store.ReportFile)
		switch name {
		case "":
			http.Redirect(w, r, "/"+report+"/", http.StatusFound)
			return
		case report:
			w.Header().Set("Location", report+"/") // relative: the run may be one of several
			w.WriteHeader(http.StatusMovedPermanently)
			return
		case report + "/":
			name = store.ReportFile
		}
		serveFile(w, r, run, name, index)
	})
}

func serveFile(w http.ResponseWriter, r *http.Request, run fs.FS, name, index string) {
	if !fs.ValidPath(name) {
		http.NotFound(w, r)
		return
	}
	info, err := fs.Stat(run, name)
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if path.Dir(name) == path.Dir(store.ReportFile) && path.Ext(name) == ".html" {
		policy := "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
		if report.IsBootPage(name) {
			policy += "; script-src " + bootpage.ScriptSource() // search and zoom, of this program and no other script
		}
		h.Set("Content-Security-Policy", policy)
	} else {
		// Serve raw output of foreign programs as text, whatever its type.
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		h.Set("Content-Type", contentType(name))
	}
	f, err := run.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	content, ok := f.(io.ReadSeeker)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if name == store.ReportFile {
		if content, err = linkToIndex(f, info.Size(), index); err != nil {
			http.NotFound(w, r)
			return
		}
	}
	http.ServeContent(w, r, name, info.ModTime(), content)
}

// maxPage bounds the page of a run that is served, in bytes.
const maxPage = 256 << 20

// linkToIndex reads the page of a run, which it gives a link to the index of runs.
func linkToIndex(f io.Reader, size int64, index string) (io.ReadSeeker, error) {
	if size > maxPage {
		return nil, fault.New(fault.Invalid, "the page is too large to serve (%d bytes)", size)
	}
	page, err := io.ReadAll(io.LimitReader(f, maxPage))
	return bytes.NewReader(report.Linked(page, index)), err
}

func contentType(name string) string {
	switch path.Ext(name) {
	case ".json":
		return "application/json"
	case ".ndjson":
		return "application/x-ndjson"
	case ".csv":
		return "text/csv; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".css":
		return "text/css; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

// completeRuns offers the run folders below runs/.
func completeRuns(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return RunsIn("runs"), cobra.ShellCompDirectiveDefault
}
