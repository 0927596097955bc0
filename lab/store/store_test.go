package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/journal"
	"bakeoff/lab/plan"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func create(t *testing.T) *Run {
	t.Helper()
	r, err := Create(filepath.Join(t.TempDir(), "runs", Name(noon, "static-web")), noon, []byte("name: static-web\n"),
		[]byte(`{"schema":"bakeoff/plan/v1"}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func trial(block, position int, raw []File) Line {
	return Line{Type: LineTrial, At: noon, Block: block, Contender: "crun", Instance: "crun-1", Status: OK,
		Trial: &Trial{Position: position, Cell: "sha256-16k", Start: noon, End: noon.Add(2 * time.Second), State: "fresh",
			Cache: "warm", Raw: raw, Parser: "crypto/1"}}
}

func TestCreateWritesWhatTheRunIs(t *testing.T) {
	r := create(t)
	if got := filepath.Base(r.Dir()); got != "20261121T120000Z-static-web" || r.Base() != got {
		t.Errorf("the folder is called %q, the run %q", got, r.Base())
	}
	lab, err := r.Lab()
	if err != nil || string(lab) != "name: static-web\n" {
		t.Errorf("lab file: %q, %v", lab, err)
	}
	p, err := r.Plan()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(p)
	lines, err := r.Journal()
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{Type: LinePlan, Schema: JournalSchema, At: noon, PlanSHA256: hex.EncodeToString(sum[:])}}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("journal: %+v", lines)
	}
}

// A folder has all its files before it is a run, so that a killed process leaves no run that
// lacks one.
func TestCreateWritesTheJournalLast(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	more := []Text{{RelativeFile, []byte("{}")}, {LabFile, []byte("a name that is taken")}}
	if _, err := Create(dir, time.Now(), []byte("lab"), []byte("{}"), more...); err == nil {
		t.Fatal("a file was written over another")
	}
	for name, want := range map[string]bool{RelativeFile: true, PlanFile: true, JournalFile: false} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCreateKeepsAnOlderRun(t *testing.T) {
	r := create(t)
	if _, err := Create(r.Dir(), noon, nil, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a second run in the same folder: %v", err)
	}
}

func TestJournalComesBackAsWritten(t *testing.T) {
	r := create(t)
	switches := 12.0
	line := trial(0, 3, []File{{Name: "0-3-crun-sha256-16k/work.json", SHA256: "00", Bytes: 1}})
	line.Before = &facts.Counters{AtNS: 5, ContextSwitches: &switches}
	want := []Line{
		{Type: LineEnvironment, At: noon, Contender: "crun", Instance: "crun-1", Status: OK, CreateNS: 7,
			Facts: map[string]string{"runtime": "crun 1.8"}},
		line,
		{Type: LineBlock, At: noon, Status: Void, Reason: "the disk is full"},
		{Type: LineEnd, At: noon, Reason: "budget"},
	}
	for _, l := range want {
		if err := r.Append(l); err != nil {
			t.Fatal(err)
		}
	}
	for name, open := range map[string]func() (*Run, error){
		"writer": func() (*Run, error) { return r, nil },
		"reader": func() (*Run, error) { return Open(r.Dir()) },
	} {
		from, err := open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := from.Journal()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got[1:], want) {
			t.Errorf("%s: journal is\n%+v, want\n%+v", name, got[1:], want)
		}
	}
}

func TestAppendRefusesWhatReadersWould(t *testing.T) {
	r := create(t)
	long := trial(0, 0, nil)
	long.Reason = strings.Repeat("x", journal.MaxLine)
	for name, l := range map[string]Line{
		"no type":              {},
		"a second plan":        {Type: LinePlan, Schema: JournalSchema},
		"a trial without one":  {Type: LineTrial},
		"a block with a trial": {Type: LineBlock, Trial: &Trial{}},
		"unknown status":       {Type: LineBlock, Status: "fine"},
		"too long":             long,
	} {
		if err := r.Append(l); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if lines, err := r.Journal(); err != nil || len(lines) != 1 {
		t.Errorf("afterwards the journal has %d lines, %v", len(lines), err)
	}
}

// A controller can be killed after any byte: whatever is left of the last
// line, the lines before it are there and the run goes on.
func TestKilledInsideTheLastLine(t *testing.T) {
	r := create(t)
	for i := range 3 {
		if err := r.Append(trial(0, i, nil)); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	whole, err := os.ReadFile(filepath.Join(r.Dir(), JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := last; cut < len(whole); cut++ {
		if err := os.WriteFile(filepath.Join(r.Dir(), JournalFile), whole[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		reader, err := Open(r.Dir())
		if err != nil {
			t.Fatal(err)
		}
		lines, err := reader.Journal()
		reader.Close()
		if err != nil || len(lines) != 3 || lines[2].Position != 1 {
			t.Fatalf("cut at byte %d: %d lines, %v", cut, len(lines), err)
		}
		again, err := Resume(r.Dir())
		if err != nil {
			t.Fatalf("cut at byte %d: %v", cut, err)
		}
		if err := again.Append(trial(0, 9, nil)); err != nil {
			t.Fatal(err)
		}
		lines, err = again.Journal()
		again.Close()
		if err != nil || len(lines) != 4 || lines[3].Position != 9 {
			t.Fatalf("cut at byte %d, resumed: %d lines, %v", cut, len(lines), err)
		}
	}
}

func TestDamageInsideNamesItsLine(t *testing.T) {
	r := create(t)
	for i := range 4 {
		if err := r.Append(trial(0, i, nil)); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	file := filepath.Join(r.Dir(), JournalFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := bytes.SplitAfter(whole, []byte("\n"))
	for name, broken := range map[string][]byte{
		"half a line in the middle": bytes.Replace(whole, rows[2], append(rows[2][:40:40], '\n'), 1),
		"two lines run together":    bytes.Replace(whole, rows[2], bytes.TrimSpace(rows[2]), 1),
		"a field nobody knows": bytes.Replace(whole, rows[2],
			bytes.Replace(rows[2], []byte(`"cell"`), []byte(`"cel"`), 1), 1),
		"the plan's line again": bytes.Replace(whole, rows[2], rows[0], 1),
		"zeros":                 bytes.Replace(whole, rows[2], append(make([]byte, 300), '\n'), 1),
	} {
		if err := os.WriteFile(file, broken, 0o666); err != nil {
			t.Fatal(err)
		}
		reader, err := Open(r.Dir())
		if err != nil {
			t.Fatal(err)
		}
		lines, err := reader.Journal()
		reader.Close()
		var d *Damage
		if !errors.As(err, &d) || d.Line != 3 || !fault.Is(err, fault.Invalid) || len(lines) != 2 {
			t.Errorf("%s: %d lines, %v", name, len(lines), err)
		}
		if _, err := Resume(r.Dir()); !errors.As(err, &d) {
			t.Errorf("%s: resumed all the same: %v", name, err)
		}
	}
}

func TestTwoControllersNeverWriteOneFolder(t *testing.T) {
	r := create(t)
	if _, err := Resume(r.Dir()); err == nil || !strings.Contains(err.Error(), "another bakeoff") {
		t.Fatalf("a second controller: %v", err)
	}
	r.Close()
	again, err := Resume(r.Dir())
	if err != nil {
		t.Fatalf("after the first one ended: %v", err)
	}
	again.Close()
}

func TestRawComesBackOrIsTampered(t *testing.T) {
	r := create(t)
	slot := plan.Slot{Block: 2, Position: 5, Contender: "host~twin", Cell: "http-50"}
	files, err := r.WriteRaw(slot, map[string][]byte{"work.json": []byte(`{"work":1}`),
		"host.json": []byte("{}"), "empty": nil})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 || files[2].Name != "2-5-host~twin-http-50/work.json" || files[2].Bytes != 10 {
		t.Fatalf("files: %+v", files)
	}
	if data, err := r.ReadRaw(files[2]); err != nil || string(data) != `{"work":1}` {
		t.Errorf("read back: %q, %v", data, err)
	}
	if _, err := r.WriteRaw(slot, nil); err == nil {
		t.Error("a trial was written twice")
	}
	dirs, err := r.RawDirs()
	if err != nil || !reflect.DeepEqual(dirs, []string{"2-5-host~twin-http-50"}) {
		t.Errorf("raw holds %v, %v", dirs, err)
	}
	file := filepath.Join(r.Dir(), RawDir, files[2].Name)
	for reason, change := range map[string]func() error{
		"sha256":   func() error { return os.WriteFile(file, []byte(`{"work":2}`), 0o666) },
		"11 bytes": func() error { return os.WriteFile(file, []byte(`{"work":12}`), 0o666) },
		"missing":  func() error { return os.Remove(file) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		data, err := r.ReadRaw(files[2])
		if on, _ := os.ReadFile(file); string(on) != string(data) {
			t.Errorf("%s: returns %q, there is %q", reason, data, on)
		}
		var tampered *Tampered
		if !errors.As(err, &tampered) || tampered.Name != "raw/"+files[2].Name || !strings.Contains(tampered.Reason, reason) {
			t.Errorf("%s: %v", reason, err)
		}
		os.WriteFile(file, []byte(`{"work":1}`), 0o666)
	}
}

// A run folder may come from a stranger: neither names in its journal nor
// links and pipes in the folder lead anywhere else.
func TestStrangersFolderIsNotLeft(t *testing.T) {
	r := create(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := fileOf("", []byte("secret"))
	in := filepath.Join(r.Dir(), RawDir, "0-0-a-b")
	if err := os.Mkdir(in, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(in, "link")); err != nil {
		t.Fatal(err)
	}
	makePipe(t, filepath.Join(in, "pipe"))
	for _, name := range []string{"0-0-a-b/link", "0-0-a-b/pipe", "../bakeoff.yaml", "0-0-a-b/../../bakeoff.yaml",
		secret, "0-0-a-b//link", "0-0-a-b", "", "0-0-a-b/.", "0-0-a-b/x\x00y"} {
		if _, err := r.ReadRaw(File{Name: name, SHA256: sum.SHA256, Bytes: sum.Bytes}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := r.WriteRaw(plan.Slot{Contender: "../../x", Cell: "y"}, nil); err == nil {
		t.Error("a contender's name led out of the folder")
	}
	if _, err := r.Fingerprint("../plan"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a fingerprint's name led elsewhere: %v", err)
	}
	if err := os.Remove(filepath.Join(r.Dir(), PlanFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(r.Dir(), PlanFile)); err != nil {
		t.Fatal(err)
	}
	if data, err := r.Plan(); err == nil {
		t.Errorf("the plan is a link and was read: %q", data)
	}
	if _, err := Open(r.Dir()); err == nil {
		t.Error("a folder whose plan is a link was opened")
	}
}

func TestEvidenceIsNeverReplaced(t *testing.T) {
	r := create(t)
	for _, name := range []string{LabFile, PlanFile, JournalFile, "raw/x", "../x", "/etc/x", "", "."} {
		if err := r.WriteFile(name, nil); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	for range 2 {
		if err := r.WriteFile(ReportFile, []byte("<!doctype html>")); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := Open(r.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.Results(); !fault.Is(err, fault.NotFound) {
		t.Errorf("no results yet: %v", err)
	}
	if err := reader.WriteResults([]byte("{}")); err != nil {
		t.Errorf("a report of a finished run: %v", err)
	}
	if data, err := r.Results(); err != nil || string(data) != "{}" {
		t.Errorf("results: %q, %v", data, err)
	}
	if err := reader.Append(Line{Type: LineEnd}); err == nil {
		t.Error("a reader wrote to the journal")
	}
}

func TestFingerprintIsNamedForTheJournal(t *testing.T) {
	r := create(t)
	want := facts.Fingerprint{Schema: facts.FingerprintSchema, Facts: map[string]string{"kernel": "6.18"},
		Unavailable: map[string]string{}}
	f, err := r.WriteFingerprint("host", want)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(r.Dir(), f.Name))
	if err != nil || fileOf(f.Name, data) != f {
		t.Errorf("the journal would say %+v of %q, %v", f, data, err)
	}
	if got, err := r.Fingerprint("host"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v, %v", got, err)
	}
	if _, err := r.Fingerprint("crun"); !fault.Is(err, fault.NotFound) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestCalibrationIsNamedInTheJournal(t *testing.T) {
	r := create(t)
	if _, _, err := r.Calibration(); !fault.Is(err, fault.NotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	if err := r.KeepCalibration(time.Unix(0, 0), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	data, f, err := r.Calibration()
	lines, jerr := r.Journal()
	if err != nil || jerr != nil || string(data) != "{}" {
		t.Fatalf("%q, %v, %v", data, err, jerr)
	}
	if last := lines[len(lines)-1]; last.Type != LineCalibration || *last.Calibration != f {
		t.Errorf("the journal says %+v of %+v", last, f)
	}
	if err := r.Append(Line{Type: LineCalibration}); err == nil {
		t.Error("a line of a calibration without its file was written")
	}
}

// A line about cells that cannot run names them, and no other line does.
func TestCellsInALine(t *testing.T) {
	r := create(t)
	if err := r.Append(Line{Type: LineUnfit, Contender: "crun", Cells: []string{"wrk"}, Reason: "no wrk"}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []Line{{Type: LineUnfit, Contender: "crun"}, {Type: LineEnvironment, Cells: []string{"wrk"}}} {
		if err := r.Append(l); err == nil {
			t.Errorf("%+v was written", l)
		}
	}
	lines, err := r.Journal()
	if last := lines[len(lines)-1]; err != nil || last.Type != LineUnfit || last.Cells[0] != "wrk" {
		t.Errorf("%+v, %v", last, err)
	}
}

func TestOpenSaysWhatIsNoRun(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !fault.Is(err, fault.NotFound) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := Open(t.TempDir()); !fault.Is(err, fault.NotFound) || fault.Fix(err) == "" {
		t.Errorf("an empty folder: %v", err)
	}
}

func FuzzReadJournal(f *testing.F) {
	f.Add([]byte(`{"type":"plan","schema":"bakeoff/journal/v1","at":"2026-11-21T12:00:00Z","plan_sha256":"00","block":0}` +
		"\n" +
		`{"type":"trial","at":"2026-11-21T12:00:00Z","block":0,"contender":"a","status":"ok",` +
		`"position":1,"cell":"c","raw":null}` + "\n" +
		`{"type":"block","at":"2026-11-21T12:00:00Z","block":0,"status":"ok"}` + "\n" + `{"type":"en`))
	f.Add([]byte("{}\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, end, err := ReadJournal(bytes.NewReader(data))
		if end < 0 || end > int64(len(data)) || end > 0 && data[end-1] != '\n' {
			t.Fatalf("end is %d of %d", end, len(data))
		}
		if err == nil && bytes.IndexByte(data[end:], '\n') >= 0 {
			t.Fatal("a whole line was left out without an error")
		}
		again, _, err := ReadJournal(io.LimitReader(bytes.NewReader(data), end))
		if err != nil || len(again) != len(lines) {
			t.Fatalf("what counts does not read back: %d of %d lines, %v", len(again), len(lines), err)
		}
	})
}

// The cost of keeping a trial, which is spent outside trials: three blobs
// and a line.
func BenchmarkTrial(b *testing.B) {
	r, err := Create(filepath.Join(b.TempDir(), "run"), noon, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	blob := bytes.Repeat([]byte("x"), 4096)
	for i := 0; b.Loop(); i++ {
		files, err := r.WriteRaw(plan.Slot{Block: i, Contender: "a", Cell: "b"},
			map[string][]byte{"work.json": blob, "host.json": blob, "exec.json": blob})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Append(trial(i, 0, files)); err != nil {
			b.Fatal(err)
		}
	}
}

// The error for a folder that cannot be created says what to do.
func TestCreateWhereNobodyMay(t *testing.T) {
	const sealed = "/sys/bakeoff" // where root may not either
	if _, err := os.Stat("/sys/kernel"); err != nil {
		t.Skip("there is no /sys here")
	}
	_, err := Create(sealed+"/a", time.Now(), nil, nil)
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "name a folder that you may write to: --out FOLDER") {
		t.Errorf("Create in a read-only folder: %v", err)
	}
}

// Runs of the same second have folders of their own.
func TestFree(t *testing.T) {
	out := t.TempDir()
	first := filepath.Join(out, Name(noon, "web"))
	for _, want := range []string{first, first + "-2", first + "-3"} {
		if got := Free(out, noon, "web"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if err := os.Mkdir(want, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := Free(filepath.Join(out, "none"), noon, "web"); got != filepath.Join(out, "none", Name(noon, "web")) {
		t.Error(got)
	}
}
