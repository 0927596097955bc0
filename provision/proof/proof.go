// Package proof runs the contract suite of a driver on this machine and stores
// the result: which tests passed, on which system, and every command that was
// executed. A driver becomes proven for a machine by it, and the owner of the
// machine can send it to the project.
package proof

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/reach/conn"
)

// Schema is the schema of a Proof.
const Schema = "bakeoff/proof/v1"

// Proof is the result of one run of the suite.
type Proof struct {
	Schema  string       `json:"schema"`
	Driver  string       `json:"driver"`
	Options param.Values `json:"options"`
	Image   string       `json:"image,omitempty"`
	At      time.Time    `json:"at"`
	Machine Machine      `json:"machine"`
	// Facts are the facts of the driver's Check, such as versions.
	Facts   map[string]string `json:"facts"`
	Version string            `json:"version"` // of bakeoff
	Agent   string            `json:"agent_sha256"`
	// Passed tells that no test failed and that all necessary tests ran.
	Passed bool            `json:"passed"`
	Why    string          `json:"why,omitempty"` // it did not pass
	Tests  []suite.Outcome `json:"tests"`
	// Transcript is the name of the file with every command, next to this one.
	Transcript       string `json:"transcript"`
	TranscriptSHA256 string `json:"transcript_sha256"`
	Commands         int    `json:"commands"`
}

// Machine identifies the system of a proof. A proof holds for one kernel and
// must be repeated for the next.
type Machine struct {
	System  string `json:"system"` // GOOS
	Arch    string `json:"arch"`
	Release string `json:"release"` // of the kernel, as uname -r says it
}

// MachineOf returns the Machine of host.
func MachineOf(ctx context.Context, host conn.Conn) (Machine, error) {
	out, err := conn.Output(ctx, host, "uname", "-r")
	return Machine{System: runtime.GOOS, Arch: runtime.GOARCH, Release: strings.TrimSpace(string(out))}, err
}

// Config is what Run needs.
type Config struct {
	Driver  driver.Driver
	Host    conn.Conn
	Options param.Values
	Image   driver.Image
	// Agent is the path of bakeoff-agent on the host.
	Agent   string
	Version string
	// StateDir is where proofs are kept.
	StateDir string
	// Suite configures the suite, in particular its Victim.
	Suite drivertest.Options
	// Ended is called after each test; nil ignores them.
	Ended func(suite.Outcome)
	Now   func() time.Time
}

// needed are the tests without which a driver is not proven.
var needed = []string{"life", "contract", "side_by_side", "cancelled", "crashed"}

// Run runs the suite and stores the result, whether it passed or not. If the
// technology does not work here, the error is of kind fault.Unsupported, and an
// older proof stays.
func Run(ctx context.Context, c Config) (Proof, error) {
	name := c.Driver.Doc().Name
	p := Proof{Schema: Schema, Driver: name, Options: c.Options, Image: c.Image.Ref, At: c.Now().UTC(), Version: c.Version}
	a := c.Driver.Check(ctx, c.Host, c.Options)
	if !a.OK {
		return p, fault.WithFix(fault.New(fault.Unsupported,
			"driver %s does not work on this machine, so it cannot be proven: %s", name, a.Reason), a.Fix)
	}
	p.Facts = a.Facts
	var err error
	if p.Machine, err = MachineOf(ctx, c.Host); err != nil {
		return p, fault.Op("prove "+name, err)
	}
	if p.Agent, err = hexsum.File(c.Agent); err != nil {
		return p, fault.Wrap(fault.NotFound, "bakeoff-agent", err)
	}
	dir := filepath.Join(c.StateDir, folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return p, fault.Wrap(fault.Lab, "state directory", err)
	}
	p.Transcript = name + ".transcript.ndjson"
	f, err := atomicfile.Create(filepath.Join(dir, p.Transcript), 0o600)
	if err != nil {
		return p, fault.Wrap(fault.Lab, "state directory", err)
	}
	defer f.Discard()
	sum := sha256.New()
	recorder := NewRecorder(c.Host, io.MultiWriter(f, sum), c.Now)
	o := c.Suite
	o.Host, o.Options, o.Image, o.Agent = recorder, c.Options, c.Image, c.Agent
	p.Tests = suite.Run(ctx, name, func(t suite.T) { drivertest.On(t, c.Driver, o) }, c.Ended)
	p.Passed, p.Why = judge(name, p.Tests)
	if p.Commands, err = recorder.End(); err != nil {
		return p, fault.Wrap(fault.Lab, "transcript", err)
	}
	p.TranscriptSHA256 = hex.EncodeToString(sum.Sum(nil))
	if err := f.Commit(); err != nil {
		return p, fault.Wrap(fault.Lab, "transcript", err)
	}
	return p, save(c.StateDir, p)
}

// judge tells whether the outcomes prove the driver, and if not why.
func judge(name string, tests []suite.Outcome) (bool, string) {
	status := map[string]suite.Outcome{}
	var failed []string
	for _, t := range tests {
		status[t.Name] = t
		if t.Status == suite.Failed && t.Name != name {
			failed = append(failed, strings.TrimPrefix(t.Name, name+"/"))
		}
	}
	if whole := status[name]; whole.Status == suite.Skipped {
		return false, strings.Join(whole.Said, " ")
	}
	if len(failed) > 0 {
		return false, "failed: " + strings.Join(failed, ", ")
	}
	if status[name].Status != suite.Passed {
		return false, "the suite did not finish"
	}
	for _, n := range needed {
		if status[name+"/"+n].Status != suite.Passed {
			return false, fmt.Sprintf("the test %s did not run", n)
		}
	}
	return true, ""
}

// The files of proofs, in the state directory.
const folder = "proof"

// maxProof bounds a stored proof, in bytes.
const maxProof = 4 << 20

// Path is the path of the proof of a driver.
func Path(stateDir, driver string) string { return filepath.Join(stateDir, folder, driver+".json") }

func save(stateDir string, p Proof) error {
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	at := Path(stateDir, p.Driver)
	return fault.Wrap(fault.Lab, "proof", atomicfile.Write(at, append(text, '\n'), 0o600))
}

// Load reads the proof of a driver. If there is none the error is of kind
// fault.NotFound.
func Load(stateDir, name string) (Proof, error) {
	f, err := os.Open(Path(stateDir, name))
	if err != nil {
		return Proof{}, fault.Wrap(fault.NotFound, "proof of "+name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProof+1))
	if err != nil {
		return Proof{}, fault.Wrap(fault.Lab, "proof of "+name, err)
	}
	return Parse(text, name)
}

// Parse parses a stored proof of the driver name.
func Parse(text []byte, name string) (Proof, error) {
	var p Proof
	if len(text) > maxProof {
		return p, fault.New(fault.Invalid, "proof of %s: longer than %d bytes", name, maxProof)
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return Proof{}, fault.Wrap(fault.Invalid, "proof of "+name, err)
	}
	if p.Schema != Schema || p.Driver != name {
		return Proof{}, fault.New(fault.Invalid, "proof of %s: the file belongs to the driver %q and has the "+
			"schema %q", name, p.Driver, p.Schema)
	}
	if ok, why := judge(name, p.Tests); ok != p.Passed {
		return Proof{}, fault.New(fault.Invalid, "proof of %s: passed is %v, but the results of its tests "+
			"contradict this (%s)", name,
			p.Passed, why)
	}
	return p, nil
}

// Holds tells whether p proves its driver on machine m.
func (p Proof) Holds(m Machine) bool { return p.Passed && p.Machine == m }

// Counts returns how many tests had each outcome, without the suite as a whole.
func (p Proof) Counts() map[suite.Status]int {
	n := map[suite.Status]int{}
	for _, t := range p.Tests {
		if t.Name != p.Driver && !slices.ContainsFunc(p.Tests, func(x suite.Outcome) bool {
			return strings.HasPrefix(x.Name,
				t.Name+"/")
		}) {
			n[t.Status]++
		}
	}
	return n
}
