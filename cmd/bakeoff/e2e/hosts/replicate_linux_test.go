package hosts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/compare"
	"bakeoff/judge/replication"
	"bakeoff/lab/archive"
	"bakeoff/lab/store"
	"bakeoff/provision/image/registry/registrytest"
	"bakeoff/reach/conn/sshtest"
)

// countLab compares two commands that print their cost: the verdict does not depend on how
// fast this machine is. They sleep, so that most of a trial is no wait for a CPU that other
// programs have, for which a gate would withhold the verdict.
const countLab = `schema: bakeoff/lab/v1
name: count
hosts: {box: {pool: any}}
contenders:
  - {name: short, driver: host, host: box}
  - {name: long, driver: host, host: box, params: {print: {argv: [sh, -c, "sleep 0.2; cat DIR/long"]}}}
baseline: short
cells:
  - name: print
    workload: command
    params: {argv: [sh, -c, "sleep 0.2; cat DIR/short"], cost: last-line, estimate: 200ms}
    primary: [cost]
design: {looks: [6], alphas: [0.05], mirror: false, budget: 5m}
`

// The facts of the machine that the bundle of the test claims to be from.
var elsewhere = map[string]string{"kernel": "Linux 5.0-elsewhere", "cpu.model": "Elsewhere 9000"}

// moveRun gives a run the facts of another machine, with the hashes that belong to them.
func moveRun(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, store.JournalFile)
	original, err := os.ReadFile(file)
	journal := original // equal fingerprints are replaced at once
	if err != nil {
		t.Fatal(err)
	}
	prints, err := filepath.Glob(filepath.Join(dir, "fingerprint", "*.json"))
	if err != nil || len(prints) != 3 {
		t.Fatalf("%v, %v", prints, err)
	}
	for _, path := range prints {
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var f facts.Fingerprint
		if err := json.Unmarshal(old, &f); err != nil {
			t.Fatal(err)
		}
		for k, v := range elsewhere {
			f.Facts[k] = v
		}
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		was, is := fmt.Sprintf(`"sha256":"%s","bytes":%d`, sum(old), len(old)), fmt.Sprintf(`"sha256":"%s","bytes":%d`,
			sum(text), len(text))
		if !bytes.Contains(original, []byte(was)) {
			t.Fatalf("the journal does not name %s by %s", path, was)
		}
		journal = bytes.ReplaceAll(journal, []byte(was), []byte(is))
	}
	if err := os.WriteFile(file, journal, 0o600); err != nil {
		t.Fatal(err)
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// must executes bakeoff, and returns its standard output.
func must(t *testing.T, h e2e.Home, want int, args ...string) (out, errs string) {
	t.Helper()
	out, errs, code := h.Bakeoff(t, 5*time.Minute, args...)
	if code != want {
		t.Fatalf("bakeoff %s: exit code %d, not %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
	}
	return out, errs
}

// replicatedHere is what replicate --json prints.
type replicatedHere struct {
	Machine  []compare.Difference `json:"machine_differences"`
	Executes []struct{ What string }
	Result   *archive.Replication `json:"replication"`
	Summary  *replication.Summary `json:"summary"`
}

func decodeHere(t *testing.T, text string) (r replicatedHere) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// A bundle from another machine is replicated with another state and cache, once here and
// once over SSH. The first machine confirms its verdict, the second does not. The person who
// made the bundle pulls both results, and reads which facts differ.
func TestReplicate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: the driver host makes control groups over SSH")
	}
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen: apt-get install openssh-client")
	}
	box, server := sshtest.Start(t), registrytest.Start(t, false)
	place := server.Host + "/team/runs"
	author, bob := e2e.New(t), e2e.New(t)
	bob.Env = append(bob.Env, "BAKEOFF_CACHE="+filepath.Join(bob.Dir, "cache"), "BAKEOFF_SSH_CONFIG="+box.Config)
	key, signers := filepath.Join(bob.Dir, "key"), filepath.Join(bob.Dir, "signers")
	generate := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	write(signers, "bob@example.org "+string(public))
	long := filepath.Join(author.Dir, "long")
	write(filepath.Join(author.Dir, "bakeoff.yaml"), strings.ReplaceAll(countLab, "DIR", author.Dir))
	write(filepath.Join(author.Dir, "short"), "100\n")
	write(long, "200\n")

	must(t, author, 0, "run", "--bind", "box=local")
	runs, err := filepath.Glob(filepath.Join(author.Dir, "runs", "*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v", runs, err)
	}
	moveRun(t, runs[0])
	must(t, author, 0, "store", "init", "--registry", place, "--signers", signers)
	must(t, author, 0, "store", "add", "runs")
	pushed, _ := must(t, author, 0, "store", "push", "--all")
	ref := strings.TrimSpace(strings.TrimPrefix(pushed, "pushed "))

	// Nothing of the bundle is executed before bob agrees.
	must(t, bob, 0, "store", "init", "--key", key, "--signers", signers)
	if _, errs := must(t, bob, 2, "replicate", ref); !strings.Contains(errs, "--bind box=ADDRESS") {
		t.Errorf("without a host: %s", errs)
	}
	out, errs := must(t, bob, 2, "replicate", "https://"+ref, "--bind", "box=local")
	for _, want := range []string{"cat " + long, "without isolation", "What it would execute, as root",
		"kernel: Linux 5.0-elsewhere there", "cpu.model: Elsewhere 9000 there", "no trusted signature"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("the plan lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "nothing was executed; add --yes or --dry-run") {
		t.Errorf("without a terminal: %s", errs)
	}
	out, _ = must(t, bob, 0, "replicate", ref, "--bind", "box=local", "--dry-run", "--json")
	if r := decodeHere(t, out); len(r.Executes) != 2 || r.Result != nil || r.Summary != nil ||
		!slices.ContainsFunc(r.Machine, func(d compare.Difference) bool {
			return d.Fact == "kernel" && d.Old == elsewhere["kernel"]
		}) {
		t.Errorf("--dry-run: %s", out)
	}
	if _, err := os.Stat(filepath.Join(bob.Dir, "runs")); !os.IsNotExist(err) {
		t.Errorf("a run began before bob agreed: %v", err)
	}

	out, _ = must(t, bob, 0, "replicate", ref, "--bind", "box=local", "--yes", "--push", "--json", "--label",
		"machine=one")
	confirmed := replication.Summary{Outcome: replication.Holds, Holds: 1}
	if r := decodeHere(t, out); r.Summary == nil || *r.Summary != confirmed {
		t.Errorf("here: %s", out)
	}
	write(long, "50\n")
	out, _ = must(t, bob, 3, "replicate", ref, "--bind", "box=box", "--yes", "--push", "--label", "machine=two")
	for _, want := range []string{"does not hold: 1 verdict", "worse (2) better (0.5)", "it is better",
		"kernel: Linux 5.0-elsewhere there", "all results of this bundle: holds on 1 of 2 machines"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("over SSH, the answer lacks %q:\n%s", want, out)
		}
	}

	must(t, author, 0, "store", "pull", ref)
	digest := ref[strings.Index(ref, "@")+1:]
	out, _ = must(t, author, 0, "store", "show", digest)
	for _, want := range []string{"holds on 1 of 2 machines", "Does not hold on two (signed by bob@example.org)",
		"long, print, cost: worse there, but it is better", "cpu.model: Elsewhere 9000 there",
		"kernel: Linux 5.0-elsewhere there"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("show lacks %q:\n%s", want, out)
		}
	}
	// The second runs are bundles, too, whose numbers follow from their raw output.
	must(t, bob, 0, "store", "verify", "--full")
	author.LeavesNothing(t)
	bob.LeavesNothing(t)
}
