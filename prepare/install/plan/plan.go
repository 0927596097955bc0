// Package plan makes the ordered steps that install a system from an
// install.yaml and the facts of the target. It runs nothing.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/strictjson"
	"bakeoff/prepare/install/spec"
)

// Schema is the value of the field schema of a plan.
const Schema = "bakeoff/install-plan/v1"

// Target is what is known of the machine that gets the system.
type Target struct {
	RAM      int64    `json:"ram"` // bytes
	Firmware Firmware `json:"firmware"`
	Disks    []Disk   `json:"disks"`
}

// Firmware says how the machine starts. EFIVars: boot entries can be written.
type Firmware struct {
	EFI        bool `json:"efi"`
	EFIVars    bool `json:"efivars"`
	SecureBoot bool `json:"secure_boot"`
}

// Disk is a disk of the target. Users are what uses it or a part of it
// ("mounted on /", "swap", "pool tank"), Signatures what wipefs finds on it.
type Disk struct {
	Path       string   `json:"path"`
	ByID       string   `json:"by_id"`
	Serial     string   `json:"serial"`
	Size       int64    `json:"size"`    // bytes
	Logical    int64    `json:"logical"` // bytes in a sector
	System     bool     `json:"system,omitempty"`
	Users      []string `json:"users,omitempty"`
	Signatures []string `json:"signatures,omitempty"`
}

// Input is what a command reads on its standard input: a text, or the secret
// that a reference of the specification names.
type Input struct {
	Text   string `json:"text,omitempty"`
	Secret string `json:"secret,omitempty"`
}

// Check tells whether a step is done: the command's output contains Expect.
type Check struct {
	Argv   []string `json:"argv"`
	Expect string   `json:"expect"`
}

// Step is a command of a plan. No shell reads Argv.
type Step struct {
	ID       string   `json:"id"`
	Purpose  string   `json:"purpose"`
	Argv     []string `json:"argv"`
	Stdin    *Input   `json:"stdin,omitempty"`
	Destroys string   `json:"destroys,omitempty"`
	Needs    []string `json:"needs,omitempty"` // ids of steps
	Check    *Check   `json:"check,omitempty"`
	Undo     []string `json:"undo,omitempty"` // releases what the step took; never destroys
}

// IDs are the identities that the plan assigns before anything is written.
// They follow from the specification, the facts and the recipe, so that the
// same input gives the same plan.
type IDs struct {
	Disk   string `json:"disk"` // GUID of the partition table
	ESP    string `json:"esp"`  // PARTUUIDs
	Swap   string `json:"swap"`
	Pool   string `json:"pool"`
	LUKS   string `json:"luks"`
	FAT    string `json:"fat"` // 8 hexadecimal digits
	HostID string `json:"hostid"`
}

// Plan is what an installation would do, in order. Hash covers all other
// fields.
type Plan struct {
	Schema string `json:"schema"`
	Recipe string `json:"recipe"`
	Disk   Disk   `json:"disk"`
	IDs    IDs    `json:"ids"`
	Steps  []Step `json:"steps"`
	Hash   string `json:"hash"`
}

// ReadTarget reads the facts of a target; file names them in messages.
func ReadTarget(file string, src []byte) (Target, error) {
	var t Target
	if err := strictjson.Decode(src, &t); err != nil {
		return t, fault.Wrap(fault.Invalid, file, err)
	}
	return t, nil
}

// New makes a plan. Its error holds every reason why the target is refused.
func New(s *spec.Spec, t Target) (*Plan, error) {
	disk, swap, err := admit(s, t)
	if err != nil {
		return nil, err
	}
	p := &Plan{Schema: Schema, Recipe: s.Recipe, Disk: disk, IDs: assignIDs(s, t)}
	r := &recipe{Plan: p, spec: s, target: t, swapGiB: swap}
	r.voidZFS()
	p.Hash = p.computeHash()
	return p, nil
}

// computeHash hashes all fields but Hash.
func (p *Plan) computeHash() string {
	c := *p
	c.Hash = ""
	return hash(c)
}

func hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types hold strings, numbers and lists only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func assignIDs(s *spec.Spec, t Target) IDs {
	seed := hash([]any{s, t})
	uuid := func(use string) string {
		h := sha256.Sum256([]byte(seed + use))
		h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8 of RFC 9562
		return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
	}
	short := func(use string) string { return uuid(use)[:8] }
	id := IDs{uuid("disk"), uuid("esp"), uuid("swap"), uuid("pool"), uuid("luks"), short("fat"), short("hostid")}
	if id.HostID == "00000000" || id.HostID == "00bab10c" {
		id.HostID = "00000001" // 0 means unset, the other is ZFSBootMenu's own
	}
	return id
}

// String prints a plan for eyes.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, serial number %s\nplan %s\n", p.Recipe, p.Disk.ByID, p.Disk.Serial, p.Hash)
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "\n%d. %s: %s\n   %s\n", i+1, s.ID, s.Purpose, quote(s.Argv))
		if s.Destroys != "" {
			fmt.Fprintf(&b, "   destroys: %s\n", s.Destroys)
		}
		if s.Stdin != nil && s.Stdin.Secret != "" {
			fmt.Fprintf(&b, "   stdin:    secret %s\n", s.Stdin.Secret)
		} else if s.Stdin != nil {
			for line := range strings.Lines(s.Stdin.Text) {
				fmt.Fprintf(&b, "   stdin:    %s\n", strings.TrimSuffix(line, "\n"))
			}
		}
		if s.Check != nil {
			fmt.Fprintf(&b, "   check:    %s prints %q\n", quote(s.Check.Argv), s.Check.Expect)
		}
		if s.Undo != nil {
			fmt.Fprintf(&b, "   undo:     %s\n", quote(s.Undo))
		}
	}
	return b.String()
}

// quote joins arguments as a shell would read them.
func quote(argv []string) string {
	var all []string
	for _, a := range argv {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[](){}<>|&;#~!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		all = append(all, a)
	}
	return strings.Join(all, " ")
}
