// Package archive holds the commands of `bakeoff store`, which keep runs that ended.
package archive

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/cmd/bakeoff/offline"
	"bakeoff/judge/replication"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/publish/runsite"
)

// The schemas of what the commands print with --json.
const (
	listSchema   = "bakeoff/store-list/v1"
	addSchema    = "bakeoff/store-add/v1"
	verifySchema = "bakeoff/store-verify/v1"
)

// keeper is what every command of this package is given.
type keeper struct {
	*cli.Streams
	getenv func(string) string
	dir    string // of the store
}

// Command returns the command and those below it.
func Command(s *cli.Streams, getenv func(string) string) *cobra.Command {
	k := &keeper{Streams: s, getenv: getenv}
	c := &cobra.Command{
		Use:   "store",
		Short: "Keep completed runs in a store, and query them",
		Long: `store packs each run that ended into a bundle, and keeps an index of all bundles: tables of
runs and comparisons, which SQL can query. A bundle contains the results, the samples as a
Parquet file, and the run folder. A bundle never changes; its digest is its name. Run
folders stay as they are. See docs/guides/store.md.

RUN is the digest of a bundle, at least six digits of the digest, or the name of the run
folder. The store is the folder in --store. Without this flag, it is the folder in the
environment variable BAKEOFF_STORE; without both, it is the folder store.`,
		Example: `  bakeoff store init
  bakeoff store add runs
  bakeoff store list --lab nightly
  bakeoff store show 20260102T030405Z-quick
  bakeoff store query "SELECT name, contender, ratio FROM comparisons WHERE verdict = 'worse'"`,
	}
	c.PersistentFlags().StringVar(&k.dir, "store", "", "`folder` of the store (default: $BAKEOFF_STORE, or store)")
	subs := []*cobra.Command{k.init(), k.add(), k.list(), k.show(), k.push(), k.pull(), k.verify(), k.rebuild(),
		k.prune(), k.query()}
	cli.Group(c, "command", strings.Join(lists.Map(subs, func(c *cobra.Command) string { return c.Name() }), ", "))
	c.AddCommand(subs...)
	return c
}

// Open opens the store in a folder. Runs that are added to it have pages.
func Open(ctx context.Context, dir string) (*archive.Store, error) {
	return describing(archive.Open(ctx, dir))
}

// describing lets a store describe the runs for which it writes the index.
func describing(s *archive.Store, err error) (*archive.Store, error) {
	if err != nil {
		return nil, err
	}
	s.Describe = runsite.Describe
	return s, nil
}

// OpenIndex opens the index of the store in a folder.
func OpenIndex(ctx context.Context, dir string) (*index.Index, error) {
	s, err := archive.Open(ctx, dir)
	if err != nil {
		return nil, err
	}
	return s.Index, nil
}

// folder is the folder of the store.
func (k *keeper) folder() string { return Folder(k.getenv, k.dir) }

// Folder is the folder of the store, if a flag names dir.
func Folder(getenv func(string) string, dir string) string {
	return cmp.Or(dir, getenv("BAKEOFF_STORE"), "store")
}

// withStore calls do with the store. The context ends when a signal comes.
func (k *keeper) withStore(c *cobra.Command, do func(context.Context, *archive.Store) error) error {
	return k.withOpened(c, archive.Open, do)
}

func (k *keeper) withOpened(c *cobra.Command, open func(context.Context, string) (*archive.Store, error),
	do func(context.Context, *archive.Store) error) error {
	ctx, stop := k.Interruptible(c.Context())
	defer stop()
	s, err := describing(open(ctx, k.folder()))
	if err != nil {
		return err
	}
	defer s.Close()
	return do(ctx, s)
}

func (k *keeper) init() *cobra.Command {
	var conf archive.Config
	c := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Make a store",
		Long: `init makes a store in a new folder. The index is a file of SQLite, to which only one process
can write at a time. If several people write, use --index to name a database of PostgreSQL.
Do not write the password into --index: bakeoff reads it from ~/.pgpass, like other
PostgreSQL clients.

The settings are in store.json. With --key, push signs bundles with this SSH key. With
--signers, verify and pull say who signed a bundle; ssh-keygen(1) describes the form of this
file under ALLOWED SIGNERS.`,
		Example: `  bakeoff store init
  bakeoff store init /srv/runs --registry registry.example/team/runs
  bakeoff store init --key ~/.ssh/id_ed25519 --signers signers --require-signature
  bakeoff store init --index postgres://ann@db.example/bakeoff`,
		Args: cli.Between(0, 1, "FOLDER"),
		RunE: func(c *cobra.Command, args []string) error {
			dir := k.folder()
			if len(args) > 0 {
				dir = args[0]
			}
			for _, file := range []*string{&conf.Key, &conf.Signers} {
				if *file != "" {
					abs, err := filepath.Abs(*file)
					if err != nil {
						return fault.Wrap(fault.Lab, "store init", err)
					}
					*file = abs
				}
			}
			if err := archive.Init(c.Context(), dir, conf); err != nil {
				return err
			}
			fmt.Fprintln(k.Out, "made the store "+dir)
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&conf.Index, "index", "", "`database` for the index: postgres://USER@HOST/DATABASE (default: a file)")
	fl.StringVar(&conf.Registry, "registry", "", "`repository` that push and pull use: HOST/NAME")
	fl.StringVar(&conf.Key, "key", "", "`file` of the SSH key that signs bundles")
	fl.StringVar(&conf.Signers, "signers", "", "`file` with the keys that are trusted")
	fl.BoolVar(&conf.RequireSignature, "require-signature", false, "refuse bundles that no trusted key signed")
	return c
}

// added is what became of one run folder.
type added struct {
	Folder string `json:"folder"`
	Bundle string `json:"bundle,omitempty"`
	New    bool   `json:"new"`
	Reason string `json:"reason,omitempty"` // why it was not added
	// Problem is why the numbers of an added run do not hold, or cannot be computed again.
	Problem string `json:"problem,omitempty"`
}

func (k *keeper) add() *cobra.Command {
	var asJSON, damaged bool
	c := &cobra.Command{
		Use:   "add RUN|FOLDER...",
		Short: "Pack runs that have ended, and add them to the store",
		Long: `add packs run folders and adds them to the store. A FOLDER stands for all runs
in it. add computes the numbers of each new run again, as bakeoff verify does. If a run has
not ended, or if its numbers do not hold, add leaves it out and adds the others. A run that
is already in the store is not added again. If add is killed, no part of a run remains in the
store; run add again.

With --damaged, add also adds runs whose numbers do not hold, such as runs without their raw
files, and warns about each. The bundle of such a run is as the run folder is. history
--store --fail-on refuses to judge such a run. add also
warns about a run whose numbers this version of bakeoff cannot compute.

The bundle does not contain the page of the run; bakeoff report can write it again.

The exit code is 1 if add leaves out a run.`,
		Example: `  bakeoff store add runs/20260102T030405Z-quick
  bakeoff store add runs
  bakeoff store add runs --json | jq '.runs[] | select(.new) | .bundle'`,
		Args: cli.Between(1, 10_000, "a run folder"),
		RunE: func(c *cobra.Command, args []string) error {
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error {
				return k.doAdd(ctx, s, args, damaged, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&damaged, "damaged", false, "also add runs whose numbers do not hold")
	return c
}

func (k *keeper) doAdd(ctx context.Context, s *archive.Store, args []string, damaged, asJSON bool) error {
	all, failed, problem := []added{}, 0, ""
	s.Check = func(dir string) (string, error) {
		fix := "run bakeoff verify " + dir
		if !damaged {
			fix += "; --damaged adds the run all the same"
		}
		damage, err := recompute(dir, fix)
		if err != nil && (fault.Is(err, fault.Unsupported) || damaged) {
			problem, err = err.Error(), nil
		}
		return damage, err
	}
	for _, arg := range args {
		folders := offline.RunsIn(arg)
		if len(folders) == 0 {
			dir, err := offline.RunDir(arg)
			if err != nil {
				return err
			}
			folders = []string{dir}
		}
		for _, dir := range folders {
			a := added{Folder: dir}
			problem = ""
			digest, _, isNew, err := s.Add(ctx, dir)
			if ctx.Err() != nil {
				return cli.Interrupted(ctx, "the runs added so far stay in the store; run the command again to add the others")
			}
			switch {
			case fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound) && len(folders) > 1:
				a.Reason = err.Error()
				failed++
			case err != nil:
				return err
			default:
				a.Bundle, a.New, a.Problem = digest, isNew, problem
			}
			all = append(all, a)
			if a.Problem != "" {
				fmt.Fprintf(k.Err, "bakeoff: warning: %s: the numbers do not hold: %s\n", safetext.Line(dir),
					safetext.Line(a.Problem))
			}
			if asJSON {
				continue
			}
			switch {
			case a.Reason != "":
				fmt.Fprintln(k.Err, "bakeoff: not added: "+safetext.Line(a.Reason))
			case a.New:
				fmt.Fprintf(k.Out, "added %s as %s\n", safetext.Line(dir), digest)
			default:
				fmt.Fprintf(k.Out, "%s is in the store as %s\n", safetext.Line(dir), digest)
			}
		}
	}
	if asJSON {
		if err := k.PrintJSON(map[string]any{"schema": addSchema, "runs": all}); err != nil {
			return err
		}
	}
	if failed > 0 {
		return cli.Exit{Code: cli.ExitFailed, Text: fmt.Sprintf("%s not added", unit.Count(failed, "run"))}
	}
	return nil
}

func (k *keeper) list() *cobra.Command {
	var f index.Filter
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the runs of the store",
		Long: `list shows the newest runs of the store, with the verdicts of their primary
comparisons. The output of --json also has the key next. Pass its value to --before to get
the next page.`,
		Example: `  bakeoff store list
  bakeoff store list --lab nightly --host rack2-07 --most 200
  bakeoff store list --label commit=1a2b3c4
  bakeoff store list --json | jq -r .next`,
		Args: cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Most < 1 || f.Most > 10_000 {
				return cli.Usage(c, fmt.Errorf("--most must be between 1 and 10000 (got %d)", f.Most))
			}
			if f.BeforeBegan != "" {
				var ok bool
				if f.BeforeBegan, f.BeforeBundle, ok = strings.Cut(f.BeforeBegan, "/"); !ok {
					return cli.Usage(c, fmt.Errorf("--before must be the value of the key next in an earlier list (got "+
						"%q)", f.BeforeBegan))
				}
			}
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error { return k.doList(ctx, s, f, asJSON) })
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Lab, "lab", "", "list only runs of the lab of this `name`")
	fl.StringVar(&f.Host, "host", "", "list only runs on the machine of this `name`")
	fl.StringToStringVar(&f.Labels, "label", nil, "list only runs with this label `name=value`; may be repeated")
	fl.IntVar(&f.Most, "most", 50, "show at most this `number` of runs")
	fl.StringVar(&f.BeforeBegan, "before", "",
		"show the runs after those of an earlier list, whose JSON object has this `next`")
	fl.BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (k *keeper) doList(ctx context.Context, s *archive.Store, f index.Filter, asJSON bool) error {
	runs, err := s.Index.List(ctx, f)
	if err != nil {
		return err
	}
	if asJSON {
		next := ""
		if len(runs) == f.Most {
			last := runs[len(runs)-1]
			next = last.Began + "/" + last.Bundle
		}
		return k.PrintJSON(map[string]any{"schema": listSchema, "runs": runs, "next": next})
	}
	if len(runs) == 0 {
		fmt.Fprintln(k.Out, "no runs")
		return nil
	}
	t := cli.NewTable("BUNDLE", "RUN", "HOST", "ENDED", "BETTER", "EQUIVALENT", "INCONCLUSIVE", "WORSE")
	for _, r := range runs {
		t.Row(bundle.Short(r.Bundle), r.Name, safetext.Clip(r.Host, 30), r.Reason, strconv.Itoa(r.Better),
			strconv.Itoa(r.Equivalent), strconv.Itoa(r.Inconclusive), strconv.Itoa(r.Worse))
	}
	k.PrintWide(t)
	if len(runs) == f.Most {
		fmt.Fprintf(k.Out, "This list shows the newest %d; use --most to show more.\n", f.Most)
	}
	return nil
}

func (k *keeper) show() *cobra.Command {
	var asJSON bool
	var unpack string
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run of the store, or unpack its folder",
		Long: `show prints what a bundle says about its run: when and where the run was made, its primary
comparisons, and the path of the Parquet file with its samples. It also says on how many
machines the verdicts hold (see bakeoff replicate). It lists the machines where they do not
hold, and the facts that differ there. --unpack writes the run folder, for bakeoff verify,
report and all other commands.`,
		Example: `  bakeoff store show 1a2b3c4d5e6f
  bakeoff store show 20260102T030405Z-quick --unpack /tmp
  bakeoff store show 20260102T030405Z-quick --json | jq -r .samples_file`,
		Args: cli.Between(1, 1, "a run of the store"),
		RunE: func(c *cobra.Command, args []string) error {
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error {
				digest, err := s.Resolve(ctx, args[0])
				if err != nil {
					return err
				}
				if unpack != "" {
					dir, err := s.Unpack(ctx, digest, unpack)
					if err == nil {
						fmt.Fprintln(k.Out, "unpacked to "+dir)
					}
					return err
				}
				return k.doShow(ctx, s, digest, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().StringVar(&unpack, "unpack", "", "unpack the run folder into this `folder`")
	return c
}

// shown is what show prints with --json.
type shown struct {
	bundle.Record
	Bundle      string `json:"bundle"`
	BundleBytes int64  `json:"bundle_bytes"`
	SamplesFile string `json:"samples_file"`
	// Replications are what second runs say of its verdicts.
	Replications archive.Replications `json:"replications"`
}

func (k *keeper) doShow(ctx context.Context, s *archive.Store, digest string, asJSON bool) error {
	e, err := s.Entry(digest)
	if err != nil {
		return err
	}
	m, _, err := s.Manifest(digest)
	if err != nil {
		return err
	}
	again, err := s.Replications(ctx, digest)
	if err != nil {
		return err
	}
	r := e.Record.Clean()
	out := shown{r, digest, e.Bytes, s.SamplesFile(m), again}
	if asJSON {
		return k.PrintJSON(out)
	}
	t := cli.Table{}
	row := func(name, value string) { t.Row(name, value) }
	row("run", r.Run)
	row("bundle", digest)
	row("lab", r.Lab)
	row("began", r.Began.Format("2006-01-02 15:04:05 UTC"))
	row("ended", r.Ended.Format("2006-01-02 15:04:05 UTC")+", "+r.Reason)
	row("machine", index.HostName(r.Machine))
	row("kernel", r.Facts[r.Baseline]["kernel"])
	row("bakeoff", r.Program)
	var labels []string
	for name, value := range r.Labels {
		labels = append(labels, name+"="+value)
	}
	slices.Sort(labels)
	row("labels", strings.Join(labels, ", "))
	row("size", fmt.Sprintf("%s packed, %s in %d files", mebibytes(e.Bytes), mebibytes(r.Bytes), r.Files))
	row("samples", fmt.Sprintf("%d in %s", r.Samples, out.SamplesFile))
	row("replicated", again.String())
	if r.TwinDiffers != nil && *r.TwinDiffers {
		row("warning", "the twin differs from the baseline: do not trust the verdicts")
	}
	if r.Lacking > 0 {
		row("warning", unit.Count(r.Lacking, "raw file")+" of the journal missing: the numbers cannot be computed again")
	}
	for _, u := range r.Unplanned {
		row("warning", "not as registered: "+u)
	}
	k.PrintBody(t)
	fmt.Fprintln(k.Out)
	v := cli.NewTable("CONTENDER", "CELL", "METRIC", "VERDICT", "RATIO", "INTERVAL", "BLOCKS")
	for _, c := range r.Comparisons {
		if c.Primary {
			v.Row(c.Contender, c.Cell, c.Metric, string(c.Verdict), figure(c.Ratio), figure(c.Low)+" – "+figure(c.High),
				strconv.Itoa(c.Blocks))
		}
	}
	if len(v.Rows) > 0 {
		k.PrintWide(v)
	}
	k.showFailing(again)
	return nil
}

// mostFacts is how many facts show prints for a machine; --json has all.
const mostFacts = 8

// showFailing lists the machines on which verdicts of a bundle do not hold.
func (k *keeper) showFailing(all archive.Replications) {
	for _, r := range all.Results {
		if r.Outcome.Outcome != replication.Fails {
			continue
		}
		k.Heading("Does not hold on " + r.HostName() + " (" + r.Signer() + ")")
		for _, line := range r.Failing() {
			k.Paragraph("", line)
		}
		facts := r.Explain()
		for _, f := range facts[:min(len(facts), mostFacts)] {
			fmt.Fprintln(k.Out, "  "+f)
		}
		if more := len(facts) - mostFacts; more > 0 {
			fmt.Fprintf(k.Out, "  and %s more; --json prints all\n", unit.Count(more, "fact"))
		}
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// figure shows a number that may be unknown.
func figure(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

func (k *keeper) rebuild() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Make the index again from the bundles",
		Long: `rebuild makes the index again from the bundles. Use rebuild if the index was lost or
damaged, or if you move the index to another database. In a database that several stores
share, rebuild replaces only the runs of this store. Readers see the old index until rebuild
ends.`,
		Example: "  bakeoff store rebuild",
		Args:    cli.Between(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			return k.withOpened(c, archive.OpenToRebuild, func(ctx context.Context, s *archive.Store) error {
				n, err := s.Rebuild(ctx, func(done, all int) {
					if done%1000 == 0 {
						fmt.Fprintf(k.Err, "bakeoff: %d of %d runs\n", done, all)
					}
				})
				if err == nil {
					fmt.Fprintf(k.Out, "%s in the index\n", unit.Count(n, "run"))
				}
				return err
			})
		},
	}
}

func (k *keeper) query() *cobra.Command {
	var asJSON, asCSV bool
	var most int
	c := &cobra.Command{
		Use:   "query SQL [VALUE...]",
		Short: "Ask the index a question in SQL",
		Long: `query executes one SELECT and prints the rows. It cannot change the index. The tables to
query are runs, comparisons and label; docs/guides/store.md lists their columns and ten
example queries. The first VALUE replaces $1 in the query, the second VALUE replaces $2, and
so on. Times are text such as 2026-01-02T03:04:05Z. Unknown values are NULL.`,
		Example: `  bakeoff store query 'SELECT lab, host, count(*) FROM runs GROUP BY lab, host'
  bakeoff store query 'SELECT name, ratio FROM comparisons WHERE contender = $1 AND began > $2' crun 2026-01
  bakeoff store query --csv 'SELECT * FROM runs' >runs.csv
  bakeoff store query --json 'SELECT * FROM comparisons WHERE lab = $1' nightly | jq -r .ratio`,
		Args: cli.Between(1, 100, "one SELECT"),
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON && asCSV {
				return cli.Usage(c, fmt.Errorf("--json and --csv exclude each other"))
			}
			values := lists.Map(args[1:], func(v string) any { return v })
			return k.withStore(c, func(ctx context.Context, s *archive.Store) error {
				switch {
				case asJSON:
					return k.queryJSON(ctx, s, args[0], values)
				case asCSV:
					return k.queryCSV(ctx, s, args[0], values)
				}
				return k.queryTable(ctx, s, args[0], values, most)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per row")
	c.Flags().BoolVar(&asCSV, "csv", false, "print CSV with a header")
	c.Flags().IntVar(&most, "most", 1000, "show at most this `number` of rows; --json and --csv print all")
	return c
}

func (k *keeper) queryJSON(ctx context.Context, s *archive.Store, text string, values []any) error {
	enc := json.NewEncoder(k.Out)
	var names []string
	return s.Index.Query(ctx, text, values, func(head []string) error { names = head; return nil },
		func(row []any) error {
			object := map[string]any{}
			for i, v := range row {
				object[names[i]] = v
			}
			return enc.Encode(object)
		})
}

func (k *keeper) queryCSV(ctx context.Context, s *archive.Store, text string, values []any) error {
	w := csv.NewWriter(k.Out)
	err := s.Index.Query(ctx, text, values, w.Write,
		func(row []any) error { return w.Write(lists.Map(row, valueText)) })
	w.Flush()
	return cmp.Or(err, fault.Op("query", w.Error()))
}

// errEnough ends a query whose other rows nobody sees.
var errEnough = fault.New(fault.Lab, "enough rows")

func (k *keeper) queryTable(ctx context.Context, s *archive.Store, text string, values []any, most int) error {
	var t cli.Table
	err := s.Index.Query(ctx, text, values, func(head []string) error {
		t.Head = lists.Map(head, func(n string) string { return strings.ToUpper(safetext.Line(n)) })
		return nil
	}, func(row []any) error {
		if len(t.Rows) == most {
			return errEnough
		}
		t.Row(lists.Map(row, func(v any) string { return safetext.Line(valueText(v)) })...)
		return nil
	})
	if err != nil && err != errEnough {
		return err
	}
	k.PrintWide(t)
	if err == errEnough {
		fmt.Fprintf(k.Out, "This table shows the first %d rows; use --most, --csv or --json to show more.\n", most)
	}
	return nil
}

// valueText is a value of a row as text; "" is NULL.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}
