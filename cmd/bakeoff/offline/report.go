package offline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/store"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

func (a reader) reportCommand() *cobra.Command {
	var sort, single, badge string
	var markdown bool
	c := &cobra.Command{
		Use:   "report RUN|FOLDER",
		Short: "Write the page of a run again",
		Long: `report writes RUN/report/index.html from the run folder. Use report after an upgrade of
bakeoff, or for a run from another machine. report measures nothing and needs no driver. If
a run was killed, report uses the completed blocks. If the page would be larger than 500 KB,
every cell has its own page, and index.html links to these pages. Each figure is also in
RUN/report/figures as SVG, PNG and CSV. If the run recorded boots, the page links to their
flame charts, RUN/report/boot-*.html.

--markdown writes no page. It prints the verdicts as a table for a pull request, with the
counters per request or operation in a collapsed section. --single FILE writes one page that
needs no other file, whatever its size. --badge FILE writes the verdicts as a small SVG
picture for a README.

For a folder with several runs, report writes FOLDER/index.html, which lists every run with
its verdicts and has a search. In FOLDER/index it writes a page for each lab file, workload,
contender, machine, verdict and month. If a run has no page, or if another version of
bakeoff wrote its page, report writes the page of the run, too. report reads only what
changed since it last wrote these pages. If FOLDER contains exactly one run, report writes
the page of that run.`,
		Example: `  bakeoff report runs/20260102T030405Z-quick
  bakeoff report --sort lab runs/20260102T030405Z-quick
  bakeoff report --markdown runs/20260102T030405Z-quick > comment.md
  bakeoff report --single run.html --badge run.svg runs/20260102T030405Z-quick
  bakeoff report runs                            write an index of all runs`,
		Args: cli.Between(1, 1, "a run folder, or a folder of runs"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := CheckSort(c, sort); err != nil {
				return err
			}
			part := markdown || single != "" || badge != ""
			if len(RunsIn(args[0])) > 1 && !part {
				return a.reportRuns(filepath.Clean(args[0]), sort)
			}
			dir, err := RunDir(args[0])
			if err != nil {
				return err
			}
			if err := sumUp(dir); err != nil {
				return err
			}
			a.warnUnplanned(dir)
			if part {
				return a.reportParts(dir, sort, single, badge, markdown)
			}
			if err := report.Write(dir, PageOption(a.version, sort)); err != nil {
				return err
			}
			fmt.Fprintln(a.Out, filepath.Join(dir, filepath.FromSlash(store.ReportFile)))
			return nil
		},
	}
	SortFlag(c, &sort)
	c.Flags().BoolVar(&markdown, "markdown", false, "print the verdicts as Markdown and write no page")
	c.Flags().StringVar(&single, "single", "", "write one self-contained page to `FILE` (- prints it)")
	c.Flags().StringVar(&badge, "badge", "", "write a badge with the verdicts to `FILE` (- prints it)")
	c.ValidArgsFunction = completeRuns
	return c
}

// reportRuns writes the site of a folder of runs.
func (a reader) reportRuns(folder, sort string) error {
	sum, err := runsite.Build(folder, runsite.Option{Report: PageOption(a.version, sort),
		Program: cli.Program(a.version)})
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "%d runs, %d of them read; %d reports and %d of %d other pages written\n", sum.Runs, sum.Read,
		sum.Reports, sum.Written, sum.Pages)
	fmt.Fprintln(a.Out, filepath.Join(folder, runsite.IndexFile))
	return nil
}

// reportParts writes what was asked for instead of the page in the run folder.
func (a reader) reportParts(dir, sort, single, badge string, markdown bool) error {
	to := "-"
	if !markdown {
		to = ""
	}
	for _, x := range []struct {
		form report.Renderer
		file string
	}{{report.Page, single}, {report.Badge, badge}, {report.Markdown, to}} {
		if x.file == "" {
			continue
		}
		var text bytes.Buffer
		if err := x.form.Folder(&text, dir, PageOption(a.version, sort)); err != nil {
			return err
		}
		if err := a.writeTo(x.file, text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeTo writes a file, or prints it if its name is -.
func (a reader) writeTo(name string, data []byte) error {
	if name == "-" {
		_, err := a.Out.Write(data)
		return fault.Wrap(fault.Lab, "report", err)
	}
	if err := replaceFile(name, data); err != nil {
		return fault.Op("report", err)
	}
	fmt.Fprintln(a.Out, name)
	return nil
}

// replaceFile writes a file whole, or leaves what has its name (see atomicfile.Replace). The
// error is of kind fault.Invalid if there can be no file of this name.
func replaceFile(name string, data []byte) error {
	err := atomicfile.Replace(name, 0o666, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return fault.WithFix(fault.Wrap(fault.Invalid, "", err), "name a file in a folder that exists")
	}
	return fault.Wrap(fault.Lab, "", err)
}

// SortFlag gives a command the flag --sort.
func SortFlag(c *cobra.Command, value *string) {
	c.Flags().StringVar(value, "sort", string(report.ByEstimate),
		"`order` of contenders: estimate (the best first) or lab (as in the lab file or the input)")
	cli.CompleteFlag(c, "sort", func([]string) []string { return report.Orders() })
}

// CheckSort refuses an unknown order.
func CheckSort(c *cobra.Command, value string) error {
	if slices.Contains(report.Orders(), value) {
		return nil
	}
	return cli.Usage(c, fmt.Errorf("--sort must be %s (got %q)", strings.Join(report.Orders(), " or "), value))
}

// PageOption is how pages are written: with the defaults of every workload, so
// that a page can distinguish chosen parameters from defaults.
func PageOption(version, sort string) report.Option {
	opt := report.Option{Version: version, Sort: report.Order(sort), Files: true,
		Defaults: map[string]param.Values{}}
	opt.Boots = func(run *store.Run) ([]report.BootPage, error) { return bootPages(run, version) }
	for _, w := range workloadall.Parsers() {
		opt.Defaults[w.Doc().Name] = param.Defaults(w.Doc().Params)
	}
	return opt
}

// RunDir finds a run: the folder itself, or the only run in it.
func RunDir(dir string) (string, error) {
	if dir == "" { // a shell's variable without a value would name the current folder
		return "", fault.WithFix(fault.New(fault.Invalid, "the name of the run folder is empty"),
			"name a run folder, or . for the current one")
	}
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return "", fault.WithFix(fault.New(fault.Invalid, "%s is a file", dir),
			"name a run folder; it contains "+store.PlanFile+" and "+store.JournalFile)
	}
	if os.IsNotExist(err) {
		fix := "bakeoff run creates one in runs"
		if last := RunsIn("runs"); len(last) > 0 {
			fix = "the latest is " + last[len(last)-1]
		}
		return "", fault.WithFix(fault.New(fault.NotFound, "run folder %s does not exist", dir), fix)
	}
	run, err := store.Open(dir)
	if err == nil {
		run.Close()
		return dir, nil
	}
	inside := RunsIn(dir)
	switch len(inside) {
	case 0:
		return "", err
	case 1:
		return inside[0], nil
	}
	return "", fault.WithFix(fault.New(fault.Invalid, "%s contains %d runs", dir, len(inside)),
		"name one of them; the latest is "+inside[len(inside)-1])
}

// openRun opens the run that RunDir finds.
func openRun(arg string) (*store.Run, error) {
	dir, err := RunDir(arg)
	if err != nil {
		return nil, err
	}
	return store.Open(dir)
}

// RunsIn returns the run folders in dir, the oldest first: their names begin
// with the time. A folder with such a name is one of a run, whatever it has lost.
func RunsIn(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if isRun(sub) || e.IsDir() && (hasFile(sub, store.RawDir) || !store.TimeOf(e.Name()).IsZero()) {
			out = append(out, sub)
		}
	}
	return out
}

// isRun reports whether a folder is one of a run, which may have lost some of its files.
func isRun(dir string) bool {
	return hasFile(dir, store.JournalFile) || hasFile(dir, store.PlanFile) || hasFile(dir, store.ResultsFile)
}

func hasFile(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}
