// Command store prints how `bakeoff store` grows with the number of runs: its index, with
// SQLite and with PostgreSQL, and the site of a store.
//
//	go run ./bench/store -runs 100,1000,10000,100000
//
// It starts a PostgreSQL of its own if the machine has one. Everything that it makes is in
// a folder that it removes: 5 GB for 100,000 runs.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/lab/archive/index/postgrestest"
	"bakeoff/publish/runsite"
)

func main() {
	runs := flag.String("runs", "100,1000,10000,100000", "numbers of runs; 0 measures only samples")
	rows := flag.Int("samples", 10_000_000, "`number` of samples that are written as Parquet")
	build := flag.String("build", "", "build the site of the index FILE into FOLDER, and print the time: `FILE,FOLDER`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func() error { return measure(ctx, *runs, *rows) }
	if *build != "" {
		do = func() error { return buildSite(ctx, *build) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, runs string, rows int) error {
	var counts []int
	for text := range strings.SplitSeq(runs, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fault.New(fault.Invalid, "-runs must be numbers (got %q)", text)
		}
		counts = append(counts, n)
	}
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if rows > 0 { // first: the memory that it reports is that of the process
		if err := samples(ctx, dir, rows); err != nil {
			return err
		}
	}
	var f figures
	for _, n := range counts {
		if n == 0 {
			continue
		}
		if err := f.grow(ctx, filepath.Join(dir, strconv.Itoa(n)), n); err != nil {
			return err
		}
	}
	f.print()
	return nil
}

// figures are a table: a column for each number of runs.
type figures struct {
	columns []string
	rows    []row
}

type row struct {
	group, name string
	cells       map[string]string // by column
}

// add adds a figure to the last column.
func (f *figures) add(group, name, format string, args ...any) {
	text, column := fmt.Sprintf(format, args...), f.columns[len(f.columns)-1]
	fmt.Printf("%7s runs  %-11s %-40s %s\n", column, group, name, text)
	i := slices.IndexFunc(f.rows, func(r row) bool { return r.group == group && r.name == name })
	if i < 0 {
		i = len(f.rows)
		f.rows = append(f.rows, row{group, name, map[string]string{}})
	}
	f.rows[i].cells[column] = text
}

// each adds what was spent for each run.
func (f *figures) each(group, name string, s spent, runs int) {
	f.add(group, name+", ms a run", "%.2f", ms(s.wall)/float64(runs))
	f.add(group, name+", CPU time of bakeoff, ms a run", "%.2f", ms(s.cpu)/float64(runs))
}

// spent is time that passed, and that this process used: all of SQLite's, and none of a server.
type spent struct{ wall, cpu time.Duration }

func (s spent) plus(o spent) spent { return spent{s.wall + o.wall, s.cpu + o.cpu} }

// since is a moment.
type since struct {
	at  time.Time
	cpu time.Duration
}

func start() since { return since{time.Now(), cpuTime()} }

func (s since) spent() spent { return spent{time.Since(s.at), cpuTime() - s.cpu} }

// print prints a table for each group.
func (f *figures) print() {
	slices.SortStableFunc(f.rows, func(a, b row) int { return strings.Compare(b.group, a.group) })
	group := ""
	for _, r := range f.rows {
		if r.group != group {
			group = r.group
			fmt.Printf("\n| %s | %s |\n|---|%s\n", group, strings.Join(f.columns, " | "),
				strings.Repeat("--:|", len(f.columns)))
		}
		fmt.Printf("| %s |", r.name)
		for _, c := range f.columns {
			fmt.Printf(" %s |", r.cells[c])
		}
		fmt.Println()
	}
}

// grow measures everything with n runs.
func (f *figures) grow(ctx context.Context, dir string, n int) error {
	f.columns = append(f.columns, strconv.Itoa(n))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sqlite, bundles := filepath.Join(dir, "sqlite"), filepath.Join(dir, "store")
	if err := os.Mkdir(sqlite, 0o700); err != nil {
		return err
	}
	place := filepath.Join(sqlite, "index")
	if err := f.index(ctx, "SQLite", place, n); err != nil {
		return err
	}
	if err := f.site(ctx, place, filepath.Join(sqlite, "pages"), n); err != nil {
		return err
	}
	if err := os.RemoveAll(sqlite); err != nil { // the disk may be small
		return err
	}
	if err := makeBundles(ctx, bundles, n); err != nil {
		return err
	}
	if err := f.rebuild(ctx, "SQLite", bundles, n); err != nil {
		return err
	}
	for _, name := range []string{"store.json", "index.sqlite"} { // so that the bundles get another index
		if err := os.Remove(filepath.Join(bundles, name)); err != nil {
			return err
		}
	}
	if postgrestest.Find() == "" {
		fmt.Println("PostgreSQL: not measured; apt-get install postgresql")
		return nil
	}
	server, err := postgrestest.Start(ctx)
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := f.index(ctx, "PostgreSQL", server.Place, n); err != nil {
		return err
	}
	x, err := index.Open(ctx, server.Place)
	if err != nil {
		return err
	}
	defer x.Close()
	nothing := func() (index.Entry, bool, error) { return index.Entry{}, false, nil }
	if err := x.Replace(ctx, nil, nothing); err != nil { // it gets the runs of the bundles
		return err
	}
	if err := archive.Init(ctx, bundles, archive.Config{Index: server.Place}); err != nil {
		return err
	}
	return f.rebuild(ctx, "PostgreSQL", bundles, n)
}

// The made-up runs: labs, machines, and comparisons of each run.
const (
	labs        = 20
	hosts       = 50
	comparisons = 12
)

// beginning is when a run began: one an hour, so 10,000 take fourteen months.
func beginning(n int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Hour)
}

// entry is the run with a number, without its results.
func entry(n int, rng *rand.Rand) index.Entry {
	began := beginning(n)
	lab, host := fmt.Sprintf("lab-%02d", n%labs), fmt.Sprintf("box-%02d", rng.IntN(hosts))
	sum := sha256.Sum256(fmt.Append(nil, n))
	facts := map[string]string{"arch": "amd64", "cpu.model": "AMD EPYC", "os": "Debian GNU/Linux 12 (bookworm)",
		"kernel": fmt.Sprintf("Linux 6.1.%d", n/10_000)}
	no := false
	r := bundle.Record{Schema: bundle.Schema, Rules: bundle.Rules, Run: began.Format("20060102T150405Z") + "-" + lab,
		Lab: lab, Began: began, Ended: began.Add(10 * time.Minute), Reason: analysis.EndedDecided, Program: "0.1.0",
		JournalSHA256: hex.EncodeToString(sum[:]), Baseline: "host", Margin: .02, Blocks: 12, TwinDiffers: &no,
		Labels:  map[string]string{"machine": host, "commit": hex.EncodeToString(sum[:6])},
		Machine: map[string]string{"arch": "amd64", "cpu.model": "AMD EPYC", "machine": host},
		Facts:   map[string]map[string]string{"host": facts}, Samples: 1000, SamplesFormat: bundle.SamplesFormat, Files: 100,
		Bytes: 1 << 20}
	verdicts := []analysis.Verdict{analysis.Better, analysis.Equivalent, analysis.Equivalent, analysis.Inconclusive,
		analysis.Worse}
	for i := range comparisons {
		ratio := 1 + rng.NormFloat64()/50
		low, high := ratio-.01, ratio+.01
		r.Comparisons = append(r.Comparisons, bundle.Comparison{Contender: fmt.Sprintf("contender-%d", i%3), Driver: "oci",
			Baseline: "host", Cell: fmt.Sprintf("cell-%d-%d", n%labs, i/3), Workload: "crypto", Metric: "throughput",
			Unit:   "B/s",
			Better: "higher", Scale: "ratio", Primary: true, Verdict: verdicts[rng.IntN(len(verdicts))], Ratio: &ratio,
			Low: &low, High: &high, Blocks: 12})
	}
	return index.Entry{Record: r, Bundle: "sha256:" + hex.EncodeToString(sum[:]), Bytes: 1 << 19}
}

// index measures an index.
func (f *figures) index(ctx context.Context, name, place string, runs int) error {
	x, err := index.Open(ctx, place)
	if err != nil {
		return err
	}
	defer x.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	n, load, making := 0, start(), spent{}
	if err := x.Replace(ctx, nil, func() (index.Entry, bool, error) {
		if n == runs {
			return index.Entry{}, false, nil
		}
		n++
		at := start()
		e, _, err := full(n-1, rng)
		making = making.plus(at.spent())
		return e, true, err
	}); err != nil {
		return err
	}
	took := load.spent()
	f.each(name, "load", spent{took.wall - making.wall, took.cpu - making.cpu}, runs)
	if info, err := os.Stat(place); err == nil {
		f.add(name, "size, MB", "%.0f", float64(info.Size())/1e6)
	}
	times := func(what string, all []spent) {
		slices.SortFunc(all, func(a, b spent) int { return cmp.Compare(a.wall, b.wall) })
		wall, most := all[len(all)/2].wall, all[len(all)-1].wall
		slices.SortFunc(all, func(a, b spent) int { return cmp.Compare(a.cpu, b.cpu) })
		f.add(name, what, "%.1f (%.1f), CPU %.1f", ms(wall), ms(most), ms(all[len(all)/2].cpu))
	}
	adds := make([]spent, 0, 50)
	for i := range 50 {
		e, _, err := full(runs+i, rng)
		if err != nil {
			return err
		}
		at := start()
		if err := x.Add(ctx, e); err != nil {
			return err
		}
		adds = append(adds, at.spent())
	}
	times("add one run, commit, ms", adds)
	// When the last connection to SQLite closes, it copies the log of the runs above into the file.
	other, err := index.Open(ctx, place)
	if err != nil {
		return err
	}
	defer other.Close()
	for _, q := range questions(runs) {
		var all []spent
		for range 5 {
			at := start()
			if err := q.ask(ctx, x); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			all = append(all, at.spent())
		}
		times(q.name+", ms", all)
	}
	return nil
}

// cpuTime is what this process used: all of the time of SQLite, and what the client of
// PostgreSQL needs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func query(text string) func(context.Context, *index.Index) error {
	return func(ctx context.Context, x *index.Index) error {
		return x.Query(ctx, text, nil, func([]string) error { return nil }, func([]any) error { return nil })
	}
}

func list(f index.Filter) func(context.Context, *index.Index) error {
	return func(ctx context.Context, x *index.Index) error {
		_, err := x.List(ctx, f)
		return err
	}
}

// question is one that pages and people ask.
type question struct {
	name string
	ask  func(context.Context, *index.Index) error
}

func questions(runs int) []question {
	middle := beginning(runs / 2).Format(time.RFC3339)
	return []question{
		{"newest 50 runs", list(index.Filter{})},
		{"newest 50 runs of a lab", list(index.Filter{Lab: "lab-03"})},
		{"newest 50 runs of a lab and a machine", list(index.Filter{Lab: "lab-03", Host: "box-07"})},
		{"50 runs of a lab in the middle", list(index.Filter{Lab: "lab-03", BeforeBegan: middle, BeforeBundle: "x"})},
		{"runs of a commit", list(index.Filter{Labels: map[string]string{"commit": "5feceb66ffc8"}})},
		{"a comparison over time, 1,000 runs", query(`SELECT seconds, ratio, low, high FROM comparisons
		WHERE contender = 'contender-1' AND cell = 'cell-3-0' AND metric = 'throughput' ORDER BY seconds DESC LIMIT 1000`)},
		{"newest 100 worse of a contender", query(`SELECT name, host, cell, ratio FROM comparisons
		WHERE contender = 'contender-1' AND cell = 'cell-3-0' AND verdict = 'worse' ORDER BY began DESC LIMIT 100`)},
		{"runs by lab and machine", query(`SELECT lab, host, count(*), max(began) FROM runs GROUP BY lab, host`)},
		{"verdicts by lab, all comparisons", query(`SELECT lab, verdict, sum(comparisons) FROM verdicts
		GROUP BY lab, verdict`)},
	}
}

// makeBundles makes bundles. Only what rebuild reads of them exists.
func makeBundles(ctx context.Context, dir string, n int) error {
	if err := archive.Init(ctx, dir, archive.Config{}); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	keep := func(v any) (bundle.Part, error) {
		b, err := json.Marshal(v)
		if err != nil {
			return bundle.Part{}, err
		}
		sum := sha256.Sum256(b)
		digits := hex.EncodeToString(sum[:])
		return bundle.Part{Digest: "sha256:" + digits, Size: int64(len(b))}, os.WriteFile(filepath.Join(dir,
			"oci/blobs/sha256", digits), b, 0o600)
	}
	absent := bundle.Part{Digest: "sha256:" + strings.Repeat("a", 64), Size: 1}
	of := func(p bundle.Part, t types.MediaType) bundle.Part {
		p.MediaType = t
		return p
	}
	for i := range n {
		e, res, err := full(i, rng)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		record, err := keep(e.Record)
		if err != nil {
			return err
		}
		results, err := keep(res)
		if err != nil {
			return err
		}
		manifest, err := keep(bundle.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
			ArtifactType: bundle.ArtifactType, Config: of(record, bundle.RecordType), Layers: []bundle.Part{
				of(results, bundle.ResultsType), of(absent, bundle.SamplesType), of(absent, bundle.FolderType)}})
		if err != nil {
			return err
		}
		digits := strings.TrimPrefix(manifest.Digest, "sha256:")
		marker := filepath.Join(dir, "runs", digits[:2], digits)
		if err := os.MkdirAll(filepath.Dir(marker), fs.ModePerm); err != nil {
			return err
		}
		if err := os.WriteFile(marker, nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// rebuild makes the index of a store again from its bundles.
func (f *figures) rebuild(ctx context.Context, name, dir string, n int) error {
	s, err := archive.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Close()
	s.Describe = runsite.Describe
	began := start()
	got, err := s.Rebuild(ctx, nil)
	if err != nil {
		return err
	}
	if got != n {
		return fault.New(fault.Lab, "rebuild found %d bundles of %d", got, n)
	}
	f.each(name, "rebuild", began.spent(), n)
	return nil
}
