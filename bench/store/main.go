// Command store prints what the index of `bakeoff store` costs with many runs: loading,
// making it again from bundles, adding a run, and the questions of pages, with SQLite and
// with PostgreSQL.
//
//	go run ./bench/store -runs 100000 -bundles 10000
//
// It starts a PostgreSQL of its own if the machine has one. Everything that it makes is in
// a folder that it removes.
package main

import (
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
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/judge/analysis"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/lab/archive/index/postgrestest"
)

func main() {
	runs := flag.Int("runs", 100_000, "`number` of runs in the index")
	bundles := flag.Int("bundles", 10_000, "`number` of bundles from which an index is made again")
	sites := flag.Int("site", 10_000, "`number` of runs of the site of a store")
	rows := flag.Int("samples", 10_000_000, "`number` of samples that are written as Parquet")
	build := flag.String("build", "", "build the site of the index FILE into FOLDER, and print the time: `FILE,FOLDER`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func() error { return measure(ctx, *runs, *bundles, *sites, *rows) }
	if *build != "" {
		do = func() error { return buildSite(ctx, *build) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, runs, bundles, sites, rows int) (err error) {
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
	if sites > 0 {
		if err := site(ctx, dir, sites); err != nil {
			return err
		}
	}
	if runs == 0 {
		return nil
	}
	fmt.Printf("%d runs, %d comparisons\n\n", runs, runs*comparisons)
	if err := one(ctx, "SQLite", filepath.Join(dir, "index.sqlite"), runs); err != nil {
		return err
	}
	places := map[string]string{"SQLite": ""}
	if postgrestest.Find() == "" {
		fmt.Println("PostgreSQL: not measured; apt-get install postgresql")
	} else {
		server, err := postgrestest.Start(ctx)
		if err != nil {
			return err
		}
		defer server.Stop()
		if err := one(ctx, "PostgreSQL", server.Place, runs); err != nil {
			return err
		}
		places["PostgreSQL"] = server.Place
	}
	for _, name := range []string{"SQLite", "PostgreSQL"} {
		if place, ok := places[name]; ok {
			if err := rebuild(ctx, name, filepath.Join(dir, name), place, bundles); err != nil {
				return err
			}
		}
	}
	return nil
}

// The made-up runs: labs, machines, and comparisons of each run.
const (
	labs        = 20
	hosts       = 50
	comparisons = 12
)

// entry is the run with a number.
func entry(n int, rng *rand.Rand) index.Entry {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
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

// one measures one index.
func one(ctx context.Context, name, place string, runs int) error {
	x, err := index.Open(ctx, place)
	if err != nil {
		return err
	}
	defer x.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	n, began := 0, time.Now()
	if err := x.Replace(ctx, nil, func() (index.Entry, bool, error) {
		if n == runs {
			return index.Entry{}, false, nil
		}
		n++
		return entry(n-1, rng), true, nil
	}); err != nil {
		return err
	}
	fmt.Printf("%-11s load                                    %9.1f s\n", name, time.Since(began).Seconds())
	files, err := filepath.Glob(place + "*")
	if err != nil {
		return err
	}
	bytes := int64(0)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += info.Size()
		}
	}
	if bytes > 0 {
		fmt.Printf("%-11s size, with the log of the load          %9.0f MB\n", name, float64(bytes)/1e6)
	}
	cpu := cpuTime()
	print := func(what string, all []time.Duration) {
		slices.Sort(all)
		used := cpuTime() - cpu
		fmt.Printf("%-11s %-40s %8.1f ms, at most %.1f; CPU here %.1f ms\n", name, what, ms(all[len(all)/2]),
			ms(all[len(all)-1]), ms(used)/float64(len(all)))
		cpu = cpuTime()
	}
	adds := make([]time.Duration, 0, 50)
	for i := range 50 {
		e := entry(runs+i, rng)
		at := time.Now()
		if err := x.Add(ctx, e); err != nil {
			return err
		}
		adds = append(adds, time.Since(at))
	}
	print("add one run, commit", adds)
	for _, q := range questions {
		var all []time.Duration
		for range 5 {
			at := time.Now()
			if err := q.ask(ctx, x); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			all = append(all, time.Since(at))
		}
		print(q.name, all)
	}
	fmt.Println()
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

// questions are those that pages and people ask.
var questions = []struct {
	name string
	ask  func(context.Context, *index.Index) error
}{
	{"newest 50 runs", list(index.Filter{})},
	{"newest 50 runs of a lab", list(index.Filter{Lab: "lab-03"})},
	{"newest 50 runs of a lab and a machine", list(index.Filter{Lab: "lab-03", Host: "box-07"})},
	{"page 100 of a lab", list(index.Filter{Lab: "lab-03", BeforeBegan: "2026-01-20", BeforeBundle: "x"})},
	{"runs of a commit", list(index.Filter{Labels: map[string]string{"commit": "5feceb66ffc8"}})},
	{"a comparison over time, 1,000 runs", query(`SELECT seconds, ratio, low, high FROM comparisons
		WHERE contender = 'contender-1' AND cell = 'cell-3-0' AND metric = 'throughput' ORDER BY seconds DESC LIMIT 1000`)},
	{"newest 100 worse of a contender", query(`SELECT name, host, cell, ratio FROM comparisons
		WHERE contender = 'contender-1' AND cell = 'cell-3-0' AND verdict = 'worse' ORDER BY began DESC LIMIT 100`)},
	{"runs by lab and machine", query(`SELECT lab, host, count(*), max(began) FROM runs GROUP BY lab, host`)},
	{"verdicts by lab, all comparisons", query(`SELECT lab, verdict, sum(comparisons) FROM verdicts
		GROUP BY lab, verdict`)},
}

// rebuild makes an index again from bundles. Only what rebuild reads of them exists.
func rebuild(ctx context.Context, name, dir, place string, n int) error {
	if err := archive.Init(ctx, dir, archive.Config{Index: place}); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	keep := func(b []byte) (string, error) {
		sum := sha256.Sum256(b)
		digits := hex.EncodeToString(sum[:])
		return "sha256:" + digits, os.WriteFile(filepath.Join(dir, "oci/blobs/sha256", digits), b, 0o600)
	}
	part := func(t types.MediaType, digest string, size int) bundle.Part {
		return bundle.Part{MediaType: t, Digest: digest, Size: int64(size)}
	}
	absent := "sha256:" + strings.Repeat("a", 64)
	for i := range n {
		text, err := json.Marshal(entry(1_000_000+i, rng).Record)
		if err != nil {
			return err
		}
		digest, err := keep(text)
		if err != nil {
			return err
		}
		manifest, err := json.Marshal(bundle.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
			ArtifactType: bundle.ArtifactType, Config: part(bundle.RecordType, digest, len(text)), Layers: []bundle.Part{
				part(bundle.ResultsType, absent, 1), part(bundle.SamplesType, absent, 1), part(bundle.FolderType, absent, 1)}})
		if err != nil {
			return err
		}
		if digest, err = keep(manifest); err != nil {
			return err
		}
		digits := strings.TrimPrefix(digest, "sha256:")
		marker := filepath.Join(dir, "runs", digits[:2], digits)
		if err := os.MkdirAll(filepath.Dir(marker), fs.ModePerm); err != nil {
			return err
		}
		if err := os.WriteFile(marker, nil, 0o600); err != nil {
			return err
		}
	}
	s, err := archive.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	got, err := s.Rebuild(ctx, nil)
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("%-11s rebuild from %d bundles            %9.1f s, %.2f ms a run\n", name, got, took.Seconds(),
		ms(took)/float64(max(got, 1)))
	return nil
}
