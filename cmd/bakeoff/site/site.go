// Package site holds the commands of `bakeoff site`: they write and publish posts, and
// need no driver.
package site

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"bakeoff/base/firstgc"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/archive"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
	"bakeoff/publish/site"
	"bakeoff/publish/site/config"
)

// writer is what every command of this package is given.
type writer struct {
	*cli.Streams
	version string
}

// Command returns the command and those below it.
func Command(s *cli.Streams, version string) *cobra.Command {
	w := writer{s, version}
	c := &cobra.Command{
		Use:   "site",
		Short: "Write and publish a web site of posts and runs",
		Long: `site builds a web site from a folder of Markdown files and runs. The folder has
the layout of BSSG (Bash Static Site Generator): src/ for posts, pages/, drafts/, static/,
and settings in config.sh.local. A blog that was written for BSSG needs no change; the site
is written to output/. Runs are in runs/. See docs/guides/publishing.md.`,
		Example: `  bakeoff site init blog
  bakeoff site new --dir blog "Nine systems, one link"
  bakeoff site build blog
  bakeoff site serve blog`,
	}
	cli.Group(c, "command", "init, new, edit, delete, list, tags, drafts, build, serve, timer, check, themes, "+
		"backup, restore, deploy or import")
	c.AddCommand(w.init(), w.createCommand(), w.editCommand(), w.removeCommand(), w.listCommand(), w.tags(),
		w.draftsCommand(), w.build(), w.serve(), w.timer(),
		w.checkCommand(), w.themes(), w.backupCommand(), w.restore(), w.deployCommand(), w.importPosts())
	return c
}

// folder is the site that a command works on: its argument, or the current folder.
func folder(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}

func (w writer) build() *cobra.Command {
	var opt site.Option
	var asJSON, watch bool
	var store string
	c := &cobra.Command{
		Use:   "build [SITE]",
		Short: "Build the site",
		Long: `build writes the pages, feeds and indexes of a site into its output folder. It makes only
the files whose inputs changed. A post with a date in the future stays unpublished until
that date. With --watch, bakeoff continues to run, and builds again when a file changes and
when the date of a post comes. If a build fails, the site of the last successful build
stays. Without --watch, systemd can start each build: bakeoff site timer prints the units.

The runs in the folder runs/ of the site become an index with a search and filters, and a
page for each workload, contender and machine. A folder that contains only runs becomes a
site of these runs, in that folder.

With --store, bakeoff builds the site of a store of runs from the index of the store. This
site has pages of lab files, machines, contenders, months and runs. It also has histories
with change points, the comparison of machines, and a search. bakeoff writes the site to the
folder site of the store, or to the folder --output, which must contain nothing else. build
does not make the page of a month again if its runs did not change.`,
		Example: `  bakeoff site build blog
  bakeoff site build --force blog               make every file again
  bakeoff site build --drafts --future blog     show what is not published yet
  bakeoff site build --watch blog               follow changes, and publish scheduled posts
  bakeoff site build --output /srv/www blog
  bakeoff site build runs                       make a site of runs
  bakeoff site build --store store --output /srv/www/runs`,
		Args: cli.Between(0, 1, "a site"),
		RunE: func(c *cobra.Command, args []string) error {
			if !watch {
				firstgc.Then(300)
			}
			if store != "" {
				if len(args) > 0 || watch || opt.Drafts || opt.Future || opt.Theme != "" {
					return cli.Usage(c, fmt.Errorf("--store builds the site of a store: it can be used only with --output, --force "+
						"and --json"))
				}
				return w.buildStore(c, store, opt, asJSON)
			}
			dir := folder(args)
			if onlyRuns(dir) && watch {
				return cli.Usage(c, fmt.Errorf("--watch needs a site of posts; %s holds only runs", dir))
			}
			if onlyRuns(dir) {
				return w.buildRuns(dir, opt.Force, asJSON)
			}
			tuneMemory()
			r, err := w.buildOnce(dir, opt, asJSON, false)
			if err != nil || !watch {
				return err
			}
			ctx, stop := w.Interruptible(c.Context())
			defer stop()
			opt.Force = false
			w.sayNext(r)
			w.follow(ctx, dir, r.Next, func() (time.Time, error) {
				r, err := w.buildOnce(dir, opt, asJSON, true)
				if err == nil && r.Files.Written+r.Files.Removed > 0 {
					w.sayNext(r)
				}
				return r.Next, err
			})
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&opt.Force, "force", false, "make every file again")
	f.BoolVar(&opt.Drafts, "drafts", false, "publish drafts too")
	f.BoolVar(&opt.Future, "future", false, "also publish posts with a date in the future")
	f.StringVar(&opt.Output, "output", "", "`folder` to write to, instead of OUTPUT_DIR")
	f.StringVar(&opt.Theme, "theme", "", "`theme` to use, instead of THEME")
	f.StringVar(&store, "store", "", "build the site of the store in this `folder`")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON for each build")
	f.BoolVar(&watch, "watch", false, "build again when a file changes, and when the date of a post comes")
	return c
}

// buildOnce builds and prints what changed; again: a build that changes nothing prints nothing.
func (w writer) buildOnce(dir string, opt site.Option, asJSON, again bool) (site.Result, error) {
	s, err := site.Open(dir)
	if err != nil {
		return site.Result{}, err
	}
	defer s.Close()
	opt.Program, opt.Report = cli.Program(w.version), offline.PageOption(w.version, string(report.ByEstimate))
	began := time.Now()
	r, err := s.Build(opt)
	if err == nil && r.Files.Written+r.Files.Removed == 0 && again {
		return r, nil
	}
	for _, warning := range r.Warnings {
		fmt.Fprintln(w.Err, "bakeoff: "+warning)
	}
	if err != nil {
		return r, err
	}
	if asJSON {
		return r, w.PrintJSON(r)
	}
	w.say(r, time.Since(began))
	return r, nil
}

// sayNext says when the next build without a change is due.
func (w writer) sayNext(r site.Result) {
	until := ""
	if !r.Next.IsZero() {
		until = ", and builds on " + r.Next.Format("2006-01-02 15:04:05 -0700")
	}
	fmt.Fprintf(w.Err, "bakeoff waits for changes%s; press Ctrl-C to stop\n", until)
}

// onlyRuns reports whether a folder holds runs, and nothing that makes it a site of posts.
func onlyRuns(dir string) bool {
	for _, name := range []string{config.File, config.Default().Source} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return false
		}
	}
	return runsite.Holds(dir)
}

func (w writer) buildRuns(dir string, force, asJSON bool) error {
	tuneMemory()
	sum, err := runsite.Build(dir, runsite.Option{Force: force, Program: cli.Program(w.version),
		Report: offline.PageOption(w.version, string(report.ByEstimate))})
	if err != nil {
		return err
	}
	if asJSON {
		return w.PrintJSON(sum)
	}
	fmt.Fprintf(w.Out, "%s: %s, %d of them read; %d files written\n", filepath.Join(dir, runsite.IndexFile),
		unit.Count(sum.Runs, "run"), sum.Read, sum.Written)
	return nil
}

// buildStore builds the site of a store.
func (w writer) buildStore(c *cobra.Command, dir string, opt site.Option, asJSON bool) error {
	tuneMemory()
	ctx, stop := w.Interruptible(c.Context())
	defer stop()
	x, err := archive.OpenIndex(ctx, dir)
	if err != nil {
		return err
	}
	defer x.Close()
	out := cmp.Or(opt.Output, filepath.Join(dir, "site"))
	sum, err := runsite.BuildStore(ctx, x, out, runsite.Option{Force: opt.Force, Program: cli.Program(w.version),
		Report: offline.PageOption(w.version, string(report.ByEstimate))})
	if err != nil {
		return err
	}
	if asJSON {
		return w.PrintJSON(sum)
	}
	fmt.Fprintf(w.Out, "%s: %s, %d of them new; %d files written, %d removed\n", filepath.Join(out, runsite.IndexFile),
		unit.Count(sum.Runs, "run"), sum.Read, sum.Written, sum.Removed)
	return nil
}

// tuneMemory lets the garbage collector wait while the heap is small: a build is short, and
// most of what it makes is garbage at once. Beyond the limit the collector works as usual.
func tuneMemory() {
	const limit = 140 << 20 // bytes
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(limit)
}

// say prints what a build did.
func (w writer) say(r site.Result, took time.Duration) {
	runs := ""
	if r.Runs > 0 {
		runs = ", " + unit.Count(r.Runs, "run")
	}
	fmt.Fprintf(w.Out, "%s: %s, %s%s; %d files written, %d unchanged, %d removed, in %.2f s\n", r.Output,
		unit.Count(r.Posts, "post"), unit.Count(r.Pages, "page"), runs, r.Files.Written, r.Files.Kept, r.Files.Removed,
		took.Seconds())
	if r.Scheduled > 0 {
		fmt.Fprintf(w.Out, "%s not published yet: dated in the future\n", unit.Count(r.Scheduled, "post"))
	}
	if r.Expired > 0 {
		fmt.Fprintf(w.Out, "%s no longer published: the expirydate has passed\n", unit.Count(r.Expired, "file"))
	}
}
