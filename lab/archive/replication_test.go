package archive

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/replication"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
	"bakeoff/provision/image/registry"
	"bakeoff/provision/image/registry/registrytest"
)

const example = "../evidence/testdata/20261123T030217Z-quick.tar.gz"

// made is a run of the example in which crun and chroot have a verdict at the cell http-50.
type made struct {
	name            string
	crun, chroot    float64 // the ratio; the interval is 1 % wide
	kernel, machine string
}

// write writes the run folder.
func (m made) write(t testing.TB) string {
	t.Helper()
	dir := storetest.Unpack(t, example, t.TempDir())
	b, err := os.ReadFile(filepath.Join(dir, store.ResultsFile))
	var r analysis.Results
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Comparisons {
		ratio := map[string]float64{"crun": m.crun, "chroot": m.chroot}[c.Contender]
		if c.Cell != "http-50" || c.Metric != "throughput" || ratio == 0 {
			continue
		}
		low, high := ratio*0.995, ratio*1.005
		region := analysis.RatioRegion(r.Margin)
		c.Ratio, c.CI = &ratio, analysis.Interval{&low, &high}
		c.Verdict = region.Verdict(math.Log(low), math.Log(high), c.Better)
		c.BeyondMargin = region.Beyond(c.Verdict, math.Log(low), math.Log(high))
		r.Comparisons[i] = c
	}
	if b, err = json.Marshal(r); err == nil {
		err = os.WriteFile(filepath.Join(dir, store.ResultsFile), b, 0o600)
	}
	for _, who := range []string{"host", "crun"} {
		file := filepath.Join(dir, "fingerprint", who+".json")
		text, rerr := os.ReadFile(file)
		var f struct{ Facts map[string]string }
		if err == nil && rerr == nil {
			err = json.Unmarshal(text, &f)
		}
		for fact, value := range map[string]string{"kernel": m.kernel, "cpu.model": m.machine} {
			text = []byte(strings.Replace(string(text), `"`+f.Facts[fact]+`"`, `"`+value+`"`, 1))
		}
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
	}
	to := filepath.Join(filepath.Dir(dir), m.name)
	if err == nil {
		err = os.Rename(dir, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func testStore(t testing.TB, c Config) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := Init(t.Context(), dir, c); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *Store) addMade(t testing.TB, m made) string {
	t.Helper()
	digest, _, _, err := s.Add(t.Context(), m.write(t))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

var original = made{"20260101T000000Z-quick", 0.8, 1, "Linux 6.1", "old machine"}

// A signed result travels with its bundle, and says where the verdicts hold.
func TestReplicationsTravel(t *testing.T) {
	server := registrytest.Start(t, false)
	at := server.Host + "/team/runs"
	client := &registry.Client{Arch: runtime.GOARCH}
	private, signers := MakeKey(t, "ann@example.org")
	other, _ := MakeKey(t, "bob@example.org")
	from := testStore(t, Config{Registry: at, Signers: signers})
	of := from.addMade(t, original)
	for i, m := range []made{{"20260102T000000Z-quick", 0.8, 1, "Linux 6.1", "machine 2"},
		{"20260103T000000Z-quick", 1.2, 1, "Linux 6.9", "machine 3"},
		{"20260104T000000Z-quick", 0.8, 1.001, "Linux 6.1", "machine 4"},
		{"20260105T000000Z-quick", 0.81, 1.001, "Linux 6.1", "machine 4"}} {
		from.Config.Key = []string{private, private, "", other}[i]
		r, err := from.Replicate(t.Context(), of, from.addMade(t, m))
		if err != nil {
			t.Fatal(err)
		}
		want := []replication.Outcome{replication.Holds, replication.Fails, replication.Holds, replication.Holds}[i]
		if s := r.Summary(); s.Outcome != want || s.Holds+s.Fails != 2 {
			t.Errorf("%s: %v", m.name, s)
		}
	}
	// A result that no program of ours writes: it quotes the bundle with another number.
	forged, err := from.judge(of, from.addMade(t, made{"20260106T000000Z-quick", 0.8, 1, "Linux 6.1", "machine 6"}))
	if err != nil {
		t.Fatal(err)
	}
	forged.Comparisons[0].There.Blocks++
	text, err := json.Marshal(forged)
	if err == nil {
		err = from.keepReferrer(replications, of, 1, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	checkReplications(t, from, of, true)
	if _, err := from.Push(t.Context(), client, of, ""); err != nil {
		t.Fatal(err)
	}

	to := testStore(t, Config{Signers: signers})
	for range 2 {
		if _, _, err := to.Pull(t.Context(), client, at+"@"+of); err != nil {
			t.Fatal(err)
		}
	}
	checkReplications(t, to, of, false)
	if files, _, err := to.Leftovers(); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
	// A damaged result is left out, and the others stay.
	list, _, err := to.referrers(replications, of)
	if err != nil || len(list) != 5 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := os.WriteFile(to.blobs.Blob(hashOf(list[0])), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := to.Replications(t.Context(), of)
	if err != nil || all.Refused == 0 {
		t.Errorf("damaged: %+v, %v", all, err)
	}
	if err := to.Remove(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if blobs, err := os.ReadDir(filepath.Join(to.blobs.Dir, "blobs/sha256")); err != nil || len(blobs) > 0 {
		t.Errorf("%d blobs are left: %v", len(blobs), err)
	}
}

func hashOf(digest string) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: strings.TrimPrefix(digest, "sha256:")}
}

func checkReplications(t *testing.T, s *Store, of string, hasRuns bool) {
	t.Helper()
	all, err := s.Replications(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	if all.Signed != (Tally{Machines: 2, Holds: 1, Fails: 1}) || all.Unsigned != (Tally{Machines: 1, Holds: 1}) ||
		all.Refused != 1 {
		t.Errorf("%+v", all)
	}
	const want = "holds on 1 of 2 machines; without a trusted signature: holds on 1 of 1 machine; 1 result refused"
	if all.String() != want {
		t.Error(all.String())
	}
	lines, err := s.Tell(t.Context(), of)
	if err != nil || len(lines) != 2 || lines[0] != "Replicated: "+want+"." || !strings.HasPrefix(lines[1],
		"Does not hold on ") || !strings.Contains(lines[1], "(signed by ann@example.org): crun, http-50, throughput: ") ||
		!strings.Contains(lines[1], "cpu.model: old machine there, machine 3 here; kernel: ") {
		t.Errorf("%q, %v", lines, err)
	}
	if known, err := s.Index.Again.Replicated(); err != nil || len(known) != 1 || known[of] == "" {
		t.Errorf("%v, %v", known, err)
	}
	for _, r := range all.Results {
		if r.Checked != hasRuns {
			t.Errorf("%s: checked %v", r.Name, r.Checked)
		}
		if strings.HasPrefix(r.Name, "20260104") {
			t.Error("an older result of machine 4 counts")
		}
		if r.Outcome.Outcome == replication.Fails {
			facts := r.Explain()
			if r.SignedBy != "ann@example.org" || len(facts) < 2 || facts[0] != "cpu.model: old machine there, machine 3 here" ||
				!slices.Contains(facts, "kernel: Linux 6.1 there, Linux 6.9 here") {
				t.Errorf("signed by %q, %q", r.SignedBy, facts)
			}
		}
	}
}

// A result about another bundle is refused by its manifest already.
func TestReferrersNameTheirBundle(t *testing.T) {
	s := testStore(t, Config{})
	of := s.addMade(t, original)
	run := s.addMade(t, made{"20260102T000000Z-quick", 0.8, 1, "Linux 6.1", "machine 2"})
	if _, err := s.Replicate(t.Context(), of, run); err != nil {
		t.Fatal(err)
	}
	list, _, err := s.referrers(replications, of)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	b, _, _, err := s.readReferrer(replications, list[0], of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replications.parse(b, run); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	if _, err := signatures.parse(b, of); !fault.Is(err, fault.Invalid) {
		t.Errorf("as a signature: %v", err)
	}
	plain := storetest.Unpack(t, example, t.TempDir())
	nothing, _, _, err := s.Add(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replicate(t.Context(), nothing, run); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "has no verdict that could be replicated") {
		t.Errorf("%v", err)
	}
}

// valid is a replication as this program writes it.
func valid(of string) Replication {
	one, half := 1.0, 0.5
	c := replication.Comparison{Contender: "b", Cell: "c", Metric: "time", Unit: "s", Better: "lower",
		There:  replication.Side{Verdict: analysis.Better, Ratio: &half, Low: &half, High: &half},
		Here:   replication.Side{Verdict: analysis.Equivalent, Ratio: &one, Low: &one, High: &one},
		Region: 0.02}
	c.Judge()
	return Replication{Schema: ReplicationSchema, Bundle: of, Run: "sha256:" + strings.Repeat("b", 64), Name: "run",
		At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Machine: map[string]string{"arch": "amd64"},
		Comparisons: []replication.Comparison{c},
		Differences: []compare.Difference{{Contender: "b", Fact: "kernel", Old: "1", New: "2"}}}
}

func TestParseReplication(t *testing.T) {
	of := "sha256:" + strings.Repeat("a", 64)
	good, err := json.Marshal(valid(of))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ParseReplication(good, of); err != nil || r.Summary().Outcome != replication.Fails {
		t.Fatalf("%+v, %v", r, err)
	}
	for want, change := range map[string]func(*Replication){
		"the schema is":                  func(r *Replication) { r.Schema = "bakeoff/replication/v2" },
		"it is about the bundle":         func(r *Replication) { r.Bundle = r.Run },
		"is not the digest of another":   func(r *Replication) { r.Run = of },
		"it has no time":                 func(r *Replication) { r.At = time.Time{} },
		"it has 0 verdicts":              func(r *Replication) { r.Comparisons = nil },
		"0 facts of the machine":         func(r *Replication) { r.Machine = nil },
		"judges":                         func(r *Replication) { r.Comparisons = append(r.Comparisons, r.Comparisons[0]) },
		"the margin of":                  func(r *Replication) { r.Comparisons[0].Region = -1 },
		`"does not hold" by its numbers`: func(r *Replication) { r.Comparisons[0].Outcome = replication.Holds },
		"a text has more than":           func(r *Replication) { r.Machine["x"] = strings.Repeat("y", maxFact+1) },
		"differences and":                func(r *Replication) { r.Differences = make([]compare.Difference, 2001) },
		"bytes; the limit is 4194304":    func(r *Replication) { r.Name = strings.Repeat("y", maxReplication) },
	} {
		r := valid(of)
		change(&r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseReplication(b, of); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := ParseReplication(append(good, " {}"...), of); !fault.Is(err, fault.Invalid) {
		t.Errorf("more behind it: %v", err)
	}
}

// Whatever is accepted says again what its numbers say.
func FuzzParseReplication(f *testing.F) {
	of := "sha256:" + strings.Repeat("a", 64)
	b, err := json.Marshal(valid(of))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(strings.Replace(string(b), `"region":0.02`, `"region":1e308`, 1)))
	f.Add([]byte(strings.Replace(string(b), `"low":0.5`, `"low":-1`, 1)))
	f.Add([]byte(`{"schema":"bakeoff/replication/v1","comparisons":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseReplication(b, of)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%v is not of kind Invalid", err)
			}
			return
		}
		if r.Bundle != of || len(r.Comparisons) == 0 {
			t.Errorf("%+v", r)
		}
		r.Explain()
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseReplication(again, of); err != nil && len(again) <= maxReplication {
			t.Errorf("what was accepted is refused: %v", err)
		}
	})
}

// A manifest of a referrer is foreign, too.
func FuzzReferrer(f *testing.F) {
	of := "sha256:" + strings.Repeat("a", 64)
	f.Add([]byte(`{"schemaVersion":2,"artifactType":"application/vnd.bakeoff.signature.v1","config":{"digest":"` + of +
		`"},"layers":[{"mediaType":"application/vnd.bakeoff.signature.ssh.v1","digest":"` + of + `","size":5}],` +
		`"subject":{"digest":"` + of + `"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, k := range referrals {
			r, err := k.parse(b, of)
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("%v is not of kind Invalid", err)
			}
			if err == nil && (len(r.Layers) < k.least || r.Layers[0].Size > k.layers[0].most) {
				t.Errorf("%+v", r)
			}
		}
	})
}
