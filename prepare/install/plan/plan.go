// Package plan makes the ordered steps that install a system from an
// install.yaml and the facts of the target. It runs nothing.
package plan

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/shell"
	"bakeoff/base/strictjson"
	"bakeoff/base/unit"
	"bakeoff/prepare/install/spec"
)

// Schema is the value of the field schema of a plan.
const Schema = "bakeoff/install-plan/v1"

// Input is what a command reads on its standard input: a text, or the secret
// of a name in Plan.Secrets.
type Input struct {
	Text   string `json:"text,omitempty"`
	Secret string `json:"secret,omitempty"`
}

// Check tells whether a step is done. The command changes nothing. With exit status 0 and
// a line of output that contains all of Expect as whole words, or no output where Empty is set, the step is
// done. With another exit status, or no output, it is absent. With other output, something
// else is in its place, and the step must not run; where Replaces is set, it may.
type Check struct {
	Argv     []string `json:"argv"`
	Dir      string   `json:"dir,omitempty"` // to start in
	Stdin    *Input   `json:"stdin,omitempty"`
	Expect   []string `json:"expect,omitempty"`
	Empty    bool     `json:"empty,omitempty"`
	Replaces bool     `json:"replaces,omitempty"`
}

// Step is a command of a plan. No shell reads Argv.
type Step struct {
	ID       string   `json:"id"`
	Purpose  string   `json:"purpose"`
	Argv     []string `json:"argv"`
	Dir      string   `json:"dir,omitempty"` // to start in; "" is the machine's default
	Stdin    *Input   `json:"stdin,omitempty"`
	Destroys string   `json:"destroys,omitempty"`
	Needs    []string `json:"needs,omitempty"` // ids of steps
	Checks   []Check  `json:"checks,omitempty"`
	Undo     []string `json:"undo,omitempty"` // releases what the step took; never destroys
	// Flush writes to the disk what is still in memory of the files below what the step opened. Until that is
	// released, it runs after the command of each later step, before the step is noted as done.
	Flush    []string `json:"flush,omitempty"`
	ReadOnly []string `json:"readonly,omitempty"` // what verify runs in place of Argv
	Releases string   `json:"releases,omitempty"` // the step runs the undo of this one
	// Once: later steps change what the checks see, so that they hold only right after it.
	Once bool `json:"once,omitempty"`
	// Redo: after an interruption in the middle, the step runs again whatever its checks say.
	Redo bool `json:"redo,omitempty"`
	// Again removes or completes what an interrupted run of the step left. It runs before the step runs a
	// second time, and destroys nothing else.
	Again []string `json:"again,omitempty"`
	// Await: the checks may take a minute to hold, and must hold twice. The step repeats until they do.
	Await bool `json:"await,omitempty"`
	// Local: the step is about the machine that installs; its checks say nothing of the system.
	Local bool `json:"local,omitempty"`
	// Reopen: verify runs the step if it is absent, as it runs steps that have an undo.
	Reopen bool `json:"reopen,omitempty"`
	// Departs: the last step, after which the machine ends its connections. A lost connection is
	// no failure, and the step never begins a second time.
	Departs bool `json:"departs,omitempty"`
	// Programs are those that Argv starts, besides the first one.
	Programs []string `json:"programs,omitempty"`
	// Until: once the step of this id is done, nothing needs the result of this one any more.
	Until string `json:"until,omitempty"`
	Room  *Room  `json:"room,omitempty"`
}

// Room is free space that a step and those after it need.
type Room struct {
	Dir   string `json:"dir"` // on the file system of this folder
	Bytes int64  `json:"bytes"`
	// Sizes is a command that prints a line for each file that is needed, which ends with the file's
	// size in bytes. These files and their signatures need space in addition to Bytes.
	Sizes []string `json:"sizes,omitempty"`
}

// IDs are the identities that the plan assigns before anything is written.
// They follow from the specification, the facts and the recipe, so that the
// same input gives the same plan.
type IDs struct {
	DriveIDs
	Second *DriveIDs `json:"second,omitempty"` // of the other disk of a mirror
	HostID string    `json:"hostid"`
}

// DriveIDs are the identities of one disk.
type DriveIDs struct {
	Disk string `json:"disk"` // GUID of the partition table
	ESP  string `json:"esp"`  // PARTUUIDs
	Swap string `json:"swap"`
	Pool string `json:"pool"`
	Boot string `json:"boot"` // of the pool that GRUB reads
	LUKS string `json:"luks"`
	FAT  string `json:"fat"` // 8 hexadecimal digits
}

// Plan is what an installation would do, in order. Hash covers all other
// fields.
type Plan struct {
	Schema  string            `json:"schema"`
	Recipe  string            `json:"recipe"`
	Notes   []string          `json:"notes"` // read these first
	Disk    Disk              `json:"disk"`
	Second  *Disk             `json:"second,omitempty"` // the other disk of a mirror
	IDs     IDs               `json:"ids"`
	Pool    string            `json:"pool"`
	Secrets map[string]string `json:"secrets"` // references, by name
	Steps   []Step            `json:"steps"`
	After   []string          `json:"after,omitempty"` // read these when the last step is done
	Hash    string            `json:"hash"`
	// Advice is what the specification may have forgotten. The hash does not cover it, and JSON lacks it.
	Advice []string `json:"-"`
}

// New makes a plan. Its error holds every reason why the target is refused.
func New(s *spec.Spec, t Target) (*Plan, error) {
	disks, swap, err := admit(s, t)
	if err != nil {
		return nil, err
	}
	t.Disks = disks // other disks change nothing
	p := &Plan{Schema: Schema, Recipe: s.Recipe, Disk: disks[0], IDs: assignIDs(s, t), Pool: poolName(s),
		Secrets: map[string]string{}}
	if len(disks) > 1 {
		p.Second = &disks[1]
	}
	r := &recipe{Plan: p, spec: s, target: t, swapGiB: swap, espMiB: espMiB(s), grub: usesGRUB(s), uki: usesUKI(s)}
	r.collectSecrets()
	r.addNotes()
	switch s.Recipe {
	case "void-zfs":
		r.voidZFS()
	case "debian-zfs":
		r.debianZFS()
	case "netbsd-zfs":
		r.netbsdZFS()
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	p.Hash = p.computeHash()
	r.advise()
	return p, nil
}

// validate refuses two steps of one id: what was done would be found by the id of the other one.
func (p *Plan) validate() error {
	seen := map[string]bool{}
	for _, s := range p.Steps {
		if seen[s.ID] {
			return fault.New(fault.Invalid, "the plan has two steps with the id %s", s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

// Read reads a plan that Plan.JSON wrote; file names it in messages.
func Read(file string, src []byte) (*Plan, error) {
	p := &Plan{}
	if err := strictjson.Decode(src, p); err != nil {
		return nil, fault.Wrap(fault.Invalid, file, err)
	}
	if p.Schema != Schema {
		return nil, fault.New(fault.Invalid, "%s: the schema is %q, not %q", file, p.Schema, Schema)
	}
	if got := p.computeHash(); got != p.Hash {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s: the plan was changed: its hash is %s, not %s",
			file, got, p.Hash), "restore it, or make another plan")
	}
	if err := p.validate(); err != nil {
		return nil, fault.WithFix(fault.Wrap(fault.Invalid, file, err), "make another plan")
	}
	return p, nil
}

// collectSecrets names the references of the specification.
func (r *recipe) collectSecrets() {
	for name, ref := range map[string]string{"pool": r.spec.Secrets.Pool, "swap": r.spec.Secrets.Swap,
		"root": r.spec.Secrets.Root} {
		if ref != "" {
			r.Secrets[name] = ref
		}
	}
	for _, u := range r.spec.Users {
		if u.Password != "" { // NetBSD gets keys only
			r.Secrets["user-"+u.Name] = u.Password
		}
	}
}

// addNotes says what a reader must know before the plan is applied.
func (r *recipe) addNotes() {
	r.Notes = []string{"never run for real: no machine was installed with the recipe " + r.spec.Recipe + " yet"}
	if r.spec.Recipe == "debian-zfs" {
		r.Notes[0] = "never run for real: with the recipe debian-zfs, only Debian without ZFSBootMenu was installed, 12 " +
			"and 13 on one encrypted disk, and 13 on two disks without encryption and swap"
		encrypted, mirror := r.Second == nil && !r.spec.Plain(), r.Second != nil && r.spec.Plain() && r.swapGiB == 0
		if encrypted && (r.uki || r.grub) || mirror && r.uki {
			r.Notes[0] = "run for real in an emulated machine, with an archive of the base system"
		}
	}
	if r.target.unknown("blkid") {
		r.Notes = append(r.Notes, "it is unknown whether another disk has a pool called "+r.Pool+"; if one has, the new "+
			"system may find the wrong pool")
	}
	if r.spec.Recipe == "netbsd-zfs" {
		return
	}
	if r.spec.Keymap != "us" && r.menu() && !r.spec.Plain() {
		r.Notes = append(r.Notes, "ZFSBootMenu may ask for the passphrase with the layout us instead of "+r.spec.Keymap+
			": choose one that you can type with both")
	}
	if all := r.Drives(); len(all) == 2 {
		lost := all[0].Size - all[1].Size
		if lost = max(lost, -lost); lost >= gib {
			r.Notes = append(r.Notes, "the disks of the mirror differ in size: "+unit.Bytes(lost>>20<<20).String()+
				" of the larger one stay unused")
		}
	}
	if r.target.ZFS == "" {
		r.Notes = append(r.Notes, "it is unknown which OpenZFS the rescue system has; one without the features of "+
			r.spec.FeatureSet()+" fails after the disk was wiped")
	}
	if r.target.SecureBoot == nil {
		r.Notes = append(r.Notes, "it is unknown whether Secure Boot is on; if it is, the system does not start")
	}
	const fallback = "no boot entry is made, the firmware starts EFI/BOOT/BOOTX64.EFI"
	switch {
	case r.target.unknown("firmware.efivars") && r.spec.Firmware != "fallback":
		r.Notes = append(r.Notes, "it is unknown whether the target has EFI variables: "+fallback)
	case !r.target.EFIVars:
		r.Notes = append(r.Notes, "no EFI variables: "+fallback)
	case !r.entries():
		r.Notes = append(r.Notes, fallback)
	}
}

// advise says what the specification may have forgotten.
func (r *recipe) advise() {
	if r.spec.Recipe != "debian-zfs" || r.spec.Base.File != "" || slices.Contains(r.spec.Packages, "sudo") {
		return
	}
	for _, u := range r.spec.Users {
		if slices.Contains(u.Groups, "sudo") {
			r.Advice = append(r.Advice, u.Name+" is in the group sudo, but nothing installs the program: add sudo to packages")
		}
	}
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
	return hexsum.Of(b)
}

func assignIDs(s *spec.Spec, t Target) IDs {
	seed := hash([]any{s, t})
	uuid := func(use string) string {
		h := sha256.Sum256([]byte(seed + use))
		h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8 of RFC 9562
		return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
	}
	drive := func(n string) DriveIDs {
		return DriveIDs{uuid("disk" + n), uuid("esp" + n), uuid("swap" + n), uuid("pool" + n), uuid("boot" + n),
			uuid("luks" + n), uuid("fat" + n)[:8]}
	}
	id := IDs{DriveIDs: drive(""), HostID: uuid("hostid")[:8]}
	if len(t.Disks) > 1 {
		id.Second = new(drive("2"))
	}
	if id.HostID == "00000000" || id.HostID == "00bab10c" {
		id.HostID = "00000001" // 0 means unset, the other is ZFSBootMenu's own
	}
	return id
}

// String prints a plan for eyes.
func (p *Plan) String() string {
	var b strings.Builder
	for i, d := range p.Drives() {
		fmt.Fprintf(&b, "%s %s, serial number %s\n", []string{p.Recipe + " on", "mirrored on"}[i], d.ByID, d.Serial)
	}
	fmt.Fprintf(&b, "plan %s\n", p.Hash)
	for _, n := range slices.Concat(p.Notes, p.Advice) {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	b.WriteString("Each step needs the step before it.\n")
	if slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Flush != nil }) {
		b.WriteString("The command in a line \"flush\" runs after each later step, until the step of the line is " +
			"released: a power\ncut then takes away nothing that a completed step wrote.\n")
	}
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "\n%d. %s: %s\n   %s\n", i+1, s.ID, s.Purpose, quote(s.Argv))
		if s.Dir != "" {
			fmt.Fprintf(&b, "   folder:   %s\n", s.Dir)
		}
		if s.Destroys != "" {
			fmt.Fprintf(&b, "   destroys: %s\n", s.Destroys)
		}
		if s.Room != nil {
			fmt.Fprintf(&b, "   room:     %s in %s\n", unit.Bytes(s.Room.Bytes), s.Room.Dir)
			if s.Room.Sizes != nil {
				fmt.Fprintf(&b, "             and the sizes at the ends of the lines of: %s\n", quote(s.Room.Sizes))
			}
		}
		p.printInput(&b, s.Stdin)
		for _, c := range s.Checks {
			fmt.Fprintf(&b, "   check:    %s %s\n", quote(c.Argv), c.says(p))
		}
		if s.Again != nil {
			fmt.Fprintf(&b, "   again:    %s\n", quote(s.Again))
		}
		if s.ReadOnly != nil {
			fmt.Fprintf(&b, "   verify:   %s\n", quote(s.ReadOnly))
		}
		if s.Undo != nil {
			fmt.Fprintf(&b, "   undo:     %s\n", quote(s.Undo))
		}
		if s.Flush != nil {
			fmt.Fprintf(&b, "   flush:    %s\n", quote(s.Flush))
		}
	}
	for i, a := range p.After {
		if i == 0 {
			b.WriteString("\nAfter the last step:\n")
		}
		fmt.Fprintf(&b, "- %s\n", a)
	}
	return b.String()
}

func (p *Plan) printInput(b *strings.Builder, in *Input) {
	switch {
	case in == nil:
	case in.Secret != "":
		fmt.Fprintf(b, "   stdin:    secret %s (%s)\n", in.Secret, p.Secrets[in.Secret])
	default:
		for line := range strings.Lines(in.Text) {
			fmt.Fprintf(b, "   stdin:    %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
}

// says describes what a check expects.
func (c Check) says(p *Plan) string {
	out := "succeeds"
	switch {
	case c.Empty:
		out = "prints nothing"
	case len(c.Expect) > 0:
		out = "prints"
		for i, e := range c.Expect {
			if i > 0 {
				out += " and"
			}
			out += fmt.Sprintf(" %q", e)
		}
	}
	if c.Stdin != nil && c.Stdin.Secret != "" {
		out += fmt.Sprintf(", given secret %s (%s)", c.Stdin.Secret, p.Secrets[c.Stdin.Secret])
	}
	return out
}

// quote joins arguments as a shell would read them. NAME=VALUE needs no quotes after the
// first word.
func quote(argv []string) string {
	var all []string
	for _, a := range argv {
		special := func(r rune) bool { return r != '=' && !shell.Plain(r) }
		if a == "" || strings.ContainsFunc(a, special) {
			a = shell.Quote(a)
		}
		all = append(all, a)
	}
	return strings.Join(all, " ")
}

// Step returns a step by its id.
func (p *Plan) Step(id string) *Step {
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &p.Steps[i]
}

// Drive is a disk of the plan with its identities.
type Drive struct {
	Disk
	DriveIDs
	suffix string // of the ids of steps: "", or "-2" of the second disk
}

// Partition is the id of the step that writes the partition table.
func (d Drive) Partition() string { return "partition" + d.suffix }

// Drives are the disks of the plan: one, or two that are mirrored.
func (p *Plan) Drives() []Drive {
	all := []Drive{{p.Disk, p.IDs.DriveIDs, ""}}
	if p.Second != nil && p.IDs.Second != nil {
		all = append(all, Drive{*p.Second, *p.IDs.Second, "-2"})
	}
	return all
}
