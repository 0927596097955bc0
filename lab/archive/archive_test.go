package archive_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/lab/archive"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
	"bakeoff/lab/store/storetest"
)

const (
	quick    = "../evidence/testdata/20261123T030217Z-quick.tar.gz"
	failures = "../evidence/testdata/20261123T030347Z-failures.tar.gz"
)

// addAgain makes this program add a run to a store, and end: a test kills it.
const addAgain = "BAKEOFF_TEST_ADD"

func TestMain(m *testing.M) {
	if words := os.Getenv(addAgain); words != "" {
		dir, run, _ := strings.Cut(words, "|")
		s, err := archive.Open(context.Background(), dir)
		if err == nil {
			_, _, _, err = s.Add(context.Background(), run)
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t testing.TB, dir string) *archive.Store {
	t.Helper()
	s, err := archive.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func create(t testing.TB, c archive.Config) *archive.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := archive.Init(t.Context(), dir, c); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// add adds a run of an archive to a store.
func add(t testing.TB, s *archive.Store, run string) string {
	t.Helper()
	digest, _, isNew, err := s.Add(t.Context(), storetest.Unpack(t, run, t.TempDir()))
	if err != nil || !isNew {
		t.Fatalf("added: %v, %v", isNew, err)
	}
	return digest
}

// holds checks all bundles of a store, and that the index has them.
func holds(t testing.TB, s *archive.Store, want int) {
	t.Helper()
	all, err := s.Bundles()
	if err != nil || len(all) != want {
		t.Fatalf("%d bundles, want %d: %v", len(all), want, err)
	}
	for _, d := range all {
		if f, err := s.Verify(t.Context(), d, nil); err != nil || f.Problem != "" {
			t.Errorf("%s: %s, %v", d, f.Problem, err)
		}
	}
	if a, b, err := s.Missing(t.Context()); err != nil || len(a)+len(b) > 0 {
		t.Errorf("the index lacks %v, the store lacks %v: %v", a, b, err)
	}
	tallied := rows(t, s.Index, `SELECT lab, host, contender, is_primary, verdict, comparisons FROM verdicts
		ORDER BY 1, 2, 3, 4, 5`)
	counted := rows(t, s.Index, `SELECT lab, host, contender, is_primary, verdict, count(*) FROM comparisons
		GROUP BY lab, host, contender, is_primary, verdict ORDER BY 1, 2, 3, 4, 5`)
	seen := rows(t, s.Index, `SELECT lab, host, contender, n FROM seen ORDER BY 1, 2, 3`)
	runs := rows(t, s.Index, `SELECT r.lab, r.host, c.contender, count(DISTINCT r.id) FROM comparisons c
		JOIN run r ON r.id = c.run GROUP BY r.lab, r.host, c.contender ORDER BY 1, 2, 3`)
	if !slices.EqualFunc(seen, runs, slices.Equal[[]any]) {
		t.Errorf("seen has\n%v\nand comparisons\n%v", seen, runs)
	}
	if !slices.EqualFunc(tallied, counted, slices.Equal[[]any]) {
		t.Errorf("verdicts has\n%v\nand comparisons\n%v", tallied, counted)
	}
}

// rows answers a question.
func rows(t testing.TB, x *index.Index, text string) (out [][]any) {
	t.Helper()
	err := x.Query(t.Context(), text, nil, func([]string) error { return nil },
		func(row []any) error { out = append(out, row); return nil })
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func TestAddTwice(t *testing.T) {
	s := create(t, archive.Config{})
	dir := storetest.Unpack(t, quick, t.TempDir())
	first, rec, isNew, err := s.Add(t.Context(), dir)
	if err != nil || !isNew || rec.Lab != "quick" {
		t.Fatalf("%v, %v, %v", rec.Lab, isNew, err)
	}
	again, _, isNew, err := s.Add(t.Context(), dir)
	if err != nil || isNew || again != first {
		t.Errorf("again: %s, %v, %v", again, isNew, err)
	}
	add(t, s, failures)
	holds(t, s, 2)
	for _, name := range []string{first, first[:14], first[7:13], "20261123T030217Z-quick"} {
		if got, err := s.Resolve(t.Context(), name); err != nil || got != first {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "sha256:", first[7:12], "%", "x' OR 1=1 --"} {
		if _, err := s.Resolve(t.Context(), name); !fault.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The index that rebuild makes is the one that add made.
func TestRebuild(t *testing.T) {
	s := create(t, archive.Config{})
	add(t, s, quick)
	add(t, s, failures)
	const all = `SELECT name, contender, driver, cell, metric, verdict, ratio, low, high, blocks, is_primary
		FROM comparisons ORDER BY 1, 2, 3, 4, 5`
	before := rows(t, s.Index, all)
	if len(before) < 20 {
		t.Fatalf("%d comparisons", len(before))
	}
	if n, err := s.Rebuild(t.Context(), nil); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	if after := rows(t, s.Index, all); !slices.EqualFunc(before, after, slices.Equal[[]any]) {
		t.Errorf("before:\n%v\nafter:\n%v", before, after)
	}
	holds(t, s, 2)
}

// An index that is damaged or lost is named, and rebuild makes it again.
func TestRebuildOfADamagedIndex(t *testing.T) {
	s := create(t, archive.Config{})
	add(t, s, quick)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.Dir, "index.sqlite")
	for name, damage := range map[string]func() error{
		"cut":   func() error { return os.Truncate(file, 4096) },
		"text":  func() error { return os.WriteFile(file, bytes.Repeat([]byte("no index\n"), 2000), 0o600) },
		"empty": func() error { return os.Truncate(file, 0) },
		"lost":  func() error { return os.Remove(file) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Open(t.Context(), s.Dir); fault.Fix(err) != "run bakeoff store rebuild" {
			t.Errorf("%s: %v", name, err)
		}
		again, err := archive.OpenToRebuild(t.Context(), s.Dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n, err := again.Rebuild(t.Context(), nil); err != nil || n != 1 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		holds(t, again, 1)
		again.Close()
	}
}

// What the disk or a person damages is found, and no blob is served that is not the one of
// its digest.
func TestDamageIsFound(t *testing.T) {
	s := create(t, archive.Config{})
	digest := add(t, s, quick)
	m, _, err := s.Manifest(digest)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{digest}
	for _, p := range m.Parts() {
		names = append(names, p.Digest)
	}
	for _, name := range names {
		file := filepath.Join(s.Dir, "oci/blobs/sha256", strings.TrimPrefix(name, "sha256:"))
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		for what, content := range map[string][]byte{"a bit": bad, "cut off": good[:len(good)-1],
			"longer": append(bytes.Clone(good), ' '), "empty": {}, "missing": nil} {
			if content == nil {
				err = os.Remove(file)
			} else {
				err = os.WriteFile(file, content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if f, err := s.Verify(t.Context(), digest, nil); err != nil || f.Problem == "" {
				t.Errorf("%s of %s was not found: %v", what, name, err)
			}
		}
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, s, 1)
}

// A process that is killed while it adds a run leaves the store as before or after.
func TestAddIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts programs: not with -short")
	}
	s := create(t, archive.Config{})
	run := storetest.Unpack(t, quick, t.TempDir())
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Each process is killed when the store has got this many entries below the folder.
	for at := 1; at < 100; at++ {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), addAgain+"="+s.Dir+"|"+run)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		killed := false
		for running := true; running; {
			select {
			case err = <-ended:
				running = false
			default:
				if !killed && entries(t, s.Dir) >= at {
					killed = true
					_ = cmd.Process.Kill() // it may have ended
				}
			}
		}
		all, berr := s.Bundles()
		if berr != nil {
			t.Fatal(berr)
		}
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && (!failed || !killed) {
			t.Fatalf("%v: %s", err, said.String())
		}
		if len(all) > 0 { // what is listed is whole
			if f, err := s.Verify(t.Context(), all[0], nil); err != nil || f.Problem != "" {
				t.Errorf("killed at %d: %s, %v", at, f.Problem, err)
			}
		}
		if !killed {
			break
		}
	}
	if _, _, _, err := s.Add(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	holds(t, s, 1)
}

// entries counts the files of a store whose index has been opened before.
func entries(t *testing.T, dir string) (n int) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error { // files come and go
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), "index.sqlite") && d.Name() != "lock" &&
			!strings.HasSuffix(d.Name(), ".json") && d.Name() != "oci-layout" {
			n++
		}
		return nil
	})
	return n
}

var block = regexp.MustCompile("(?s)```sql\n(.*?)```")

func questionsOfTheGuide(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/guides/store.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range block.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(q[1], "read_parquet") { // which package bundle tests
			out = append(out, q[1])
		}
	}
	if len(out) < 10 {
		t.Fatalf("%d questions", len(out))
	}
	return out
}

// The questions of the guide are answered.
func TestQuestionsOfTheGuide(t *testing.T) {
	s := create(t, archive.Config{})
	add(t, s, quick)
	add(t, s, failures)
	answered := 0
	for _, q := range questionsOfTheGuide(t) {
		if len(rows(t, s.Index, q)) > 0 {
			answered++
		}
	}
	if answered < 5 {
		t.Errorf("%d questions have an answer", answered)
	}
}

// writing are texts that would change an index, or ask nothing.
var writing = []string{"DELETE FROM run", "DROP TABLE comparison", "SELECT 1; DELETE FROM run",
	"UPDATE run SET name = 'x'", "INSERT INTO verdict VALUES (9, 'x')", "CREATE TABLE x (a TEXT)", "", ";", "-- nothing",
	"WITH x AS (SELECT 1) DELETE FROM run"}

func ask(t *testing.T, x *index.Index, text string) error {
	t.Helper()
	return x.Query(t.Context(), text, nil, func([]string) error { return nil }, func([]any) error { return nil })
}

// A question cannot change the index, whatever it says.
func TestQuestionsCannotWrite(t *testing.T) {
	s := create(t, archive.Config{})
	add(t, s, quick)
	for _, text := range writing {
		if err := ask(t, s.Index, text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	holds(t, s, 1)
	add(t, s, failures) // the store can write again
	holds(t, s, 2)
}

func TestNamesAreNotSQL(t *testing.T) { namesAreNotSQL(t, create(t, archive.Config{})) }

// namesAreNotSQL checks that a name of a stranger, whatever it says, is only ever a value: it is
// stored, found and removed as it is, and chooses and changes nothing else.
func namesAreNotSQL(t *testing.T, s *archive.Store) {
	t.Helper()
	add(t, s, quick)
	all := func() []index.Run {
		t.Helper()
		runs, err := s.Index.List(t.Context(), index.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return runs
	}
	for n, nasty := range []string{`x' OR '1'='1`, `'; DELETE FROM run; --`, `x"; DROP TABLE comparison; --`, `$1`, `?`,
		`%`, `\'; DELETE FROM label; --`, `x') UNION SELECT * FROM host --`, `$$; DROP TABLE run; $$`, `{{1}}%s%d`} {
		for _, f := range []index.Filter{{Lab: nasty}, {Host: nasty}, {Name: nasty},
			{Labels: map[string]string{nasty: nasty}}, {BeforeBegan: "0" + nasty, BeforeBundle: nasty}} {
			if runs, err := s.Index.List(t.Context(), f); err != nil || len(runs) > 0 {
				t.Errorf("%+v chooses %v: %v", f, runs, err)
			}
			if runs, lacking, err := s.Index.Past(t.Context(), f); err != nil || len(runs)+len(lacking) > 0 {
				t.Errorf("%+v has a past of %d runs, and %d without: %v", f, len(runs), len(lacking), err)
			}
		}
		if found, err := s.Index.Find(t.Context(), nasty); err != nil || len(found) > 0 {
			t.Errorf("%q finds %v: %v", nasty, found, err)
		}
		if err := errors.Join(s.Index.Remove(t.Context(), nasty), s.Index.Touch(t.Context(), nasty)); err != nil {
			t.Errorf("%q: %v", nasty, err)
		}
		got := 0
		if err := s.Index.Query(t.Context(), "SELECT name FROM runs WHERE lab = $1", []any{nasty},
			func([]string) error { return nil }, func([]any) error { got++; return nil }); err != nil || got > 0 {
			t.Errorf("%q: %d rows, %v", nasty, got, err)
		}
		// A run whose every text is the name.
		ratio, at := 1.5, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		facts := map[string]map[string]string{nasty: {nasty: nasty}}
		e := index.Entry{Bundle: nasty, Page: []byte(nasty), Past: &history.Run{Run: compare.Run{Facts: facts}},
			Record: bundle.Record{Run: nasty, Lab: nasty, Began: at, Ended: at, Reason: nasty,
				Program: nasty, JournalSHA256: nasty, Baseline: nasty, Machine: map[string]string{"machine": nasty, "arch": nasty},
				Labels: map[string]string{nasty: nasty}, Facts: map[string]map[string]string{nasty: {"os": nasty, "kernel": nasty}},
				Comparisons: []bundle.Comparison{{Contender: nasty, Driver: nasty, Baseline: nasty, Cell: nasty, Workload: nasty,
					Metric: nasty, Unit: nasty, Primary: true, Verdict: analysis.Worse, Ratio: &ratio}}}}
		if err := s.Index.Add(t.Context(), e); err != nil {
			t.Fatalf("%q: %v", nasty, err)
		}
		runs, err := s.Index.List(t.Context(), index.Filter{Lab: nasty, Host: nasty, Name: nasty,
			Labels: map[string]string{nasty: nasty}})
		if err != nil || len(runs) != 1 || runs[0].Bundle != nasty || runs[0].Kernel != nasty || runs[0].Worse != 1 {
			t.Errorf("%q: %+v, %v", nasty, runs, err)
		}
		if pages, err := s.Index.Pages(t.Context(), []int64{runs[0].ID}); err != nil || string(pages[runs[0].ID]) != nasty {
			t.Errorf("%q has the page %q: %v", nasty, pages[runs[0].ID], err)
		}
		if past, _, err := s.Index.Past(t.Context(), index.Filter{Lab: nasty}); err != nil || len(past) != 1 ||
			past[0].Facts[nasty][nasty] != nasty {
			t.Errorf("%q has a past of %d runs: %v", nasty, len(past), err)
		}
		if n := len(all()); n != 2 {
			t.Errorf("with %q there are %d runs", nasty, n)
		}
		if err := s.Index.Remove(t.Context(), nasty); err != nil {
			t.Errorf("%d: %v", n, err)
		}
		holds(t, s, 1)
	}
}

// Who watches the index sees each run that another process adds.
func TestWatch(t *testing.T) { watch(t, create(t, archive.Config{})) }

func watch(t *testing.T, s *archive.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}, 10), make(chan error, 1)
	other := open(t, s.Dir)
	go func() { ended <- other.Index.Watch(ctx, func() { changed <- struct{}{} }) }()
	<-changed // it watches
	add(t, s, quick)
	<-changed
	if runs, err := other.Index.List(t.Context(), index.Filter{}); err != nil || len(runs) != 1 {
		t.Errorf("%v, %v", runs, err)
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("it ended without the reason")
	}
}

// What histories need of a run leaves the index with the last run that needs it.
func TestRemovedRunsLeaveNothing(t *testing.T) { leaveNothing(t, create(t, archive.Config{})) }

func leaveNothing(t *testing.T, s *archive.Store) {
	t.Helper()
	one, two := add(t, s, quick), add(t, s, failures)
	parts := func() int { return len(rows(t, s.Index, "SELECT id FROM part")) }
	both := parts()
	if err := s.Remove(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if runs, _, err := s.Index.Past(t.Context(), index.Filter{}); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	// A run without values is named, with its time.
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := index.Entry{Bundle: "bare", Record: bundle.Record{Run: "bare", Lab: "nightly", Began: at}}
	if err := s.Index.Add(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	_, lacking, err := s.Index.Past(t.Context(), index.Filter{Lab: "nightly"})
	if err != nil || len(lacking) != 1 || lacking[0].Folder != "bare" || lacking[0].Lab != "nightly" ||
		!lacking[0].At.Equal(at) {
		t.Errorf("lacking %+v, %v", lacking, err)
	}
	if err := s.Index.Remove(t.Context(), "bare"); err != nil {
		t.Error(err)
	}
	if n := parts(); n == 0 || n >= both {
		t.Errorf("%d rows of %d are left with one of two runs", n, both)
	}
	if err := s.Remove(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"run", "past", "part", "label", "comparison", "tally", "seen"} {
		if left := rows(t, s.Index, "SELECT * FROM "+table); len(left) > 0 {
			t.Errorf("%s: %v", table, left)
		}
	}
}
