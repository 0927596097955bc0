// Package driver is the contract of isolation technologies.
//
// A driver creates environments on a host. It reaches the host only through
// conn.Conn, so the same driver works on this machine, over SSH, and against a
// recorded conversation. Each child package is one technology; package all
// lists them; package drivertest is the suite that all of them pass.
package driver

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Driver creates environments of one technology.
type Driver interface {
	Doc() Doc
	// Check tells whether the technology works on host with these options and,
	// if not, how to make it work. It changes nothing.
	Check(ctx context.Context, host conn.Conn, options param.Values) Availability
	// Create creates an environment and returns when it answers. If it fails it
	// has removed what it created. If a guest does not come up, the error is of
	// kind fault.Subject and has the end of its console.
	Create(ctx context.Context, host conn.Conn, spec Spec) (Instance, error)
	// Reap removes what an environment with this label and directory left on
	// host. It returns one line for each thing that it found, such as "control
	// group /sys/fs/cgroup/bakeoff/x", "mount /…" or "process 123 qemu". With
	// dryRun it changes nothing. If nothing exists it finds nothing.
	Reap(ctx context.Context, host conn.Conn, left Leftover, dryRun bool) (found []string, err error)
}

// Named returns the driver called name; nil if there is none.
func Named(drivers []Driver, name string) Driver {
	d, _ := lists.Find(drivers, func(d Driver) bool { return d.Doc().Name == name })
	return d
}

// Validator is a Driver that can reject a Spec without a host, such as a
// machine with half a MiB of memory or contradictory options. Plans are
// validated before anything is created.
type Validator interface {
	// Validate returns the error that Create would return on any host, of kind
	// fault.Invalid or fault.Unsupported; nil if some host may be able to
	// create the Spec.
	Validate(spec Spec) error
}

// HostValidator is a Driver that can reject a Spec by files of its host: what the
// kernel in an option cannot give, for instance.
type HostValidator interface {
	// ValidateOn returns the error that Create would return on host because of such
	// files, of kind fault.Invalid or fault.Unsupported. It changes nothing.
	ValidateOn(ctx context.Context, host conn.Conn, spec Spec) error
}

// Guest is a Driver whose environments may run another operating system than their host.
type Guest interface {
	// System is that of an environment, as GOOS names it; "" if nothing says it before the
	// environment runs. It changes nothing.
	System(ctx context.Context, host conn.Conn, spec Spec) string
}

// Relative is a Driver whose options name files relative to the lab file.
type Relative interface {
	// SetFolder says where the lab file is; "" is unknown. It is called before all else.
	SetFolder(folder string)
	// RelativeFiles are the files that options name.
	RelativeFiles(options param.Values) []string
}

// Reacher is a Driver that can reach an environment that exists before the run (Doc.Standing).
type Reacher interface {
	// Reach returns the way into the environment, nil if spec names none. It changes nothing.
	Reach(ctx context.Context, host conn.Conn, spec Spec) (conn.Conn, error)
}

// EngineStarter is a Driver whose environments may share an engine: a container engine that the
// run starts for itself, and that lives longer than each of them.
type EngineStarter interface {
	// StartEngine starts the engine for all environments with spec.Options;
	// it returns nil where they need none. Of spec it reads Label, Dir, CPUSet
	// (where the engine runs: not on the subject's CPUs), Agent and Options.
	// When it fails it has removed what it made. Reap finds an engine as it
	// finds an environment.
	StartEngine(ctx context.Context, host conn.Conn, spec Spec) (Engine, error)
}

// Engine is what StartEngine has started.
type Engine interface {
	// Options replace Spec.Options of the environments that use the engine.
	Options() param.Values
	// Close stops the engine and removes it. No environment uses it any more.
	Close(ctx context.Context) error
}

// Leftover identifies an environment that was not closed.
type Leftover struct {
	Label string // Spec.Label
	Dir   string // Spec.Dir
}

// Instance is a live environment. Close is idempotent and leaves nothing
// behind.
type Instance interface {
	conn.Conn
	// Info describes the environment. It does not change.
	Info() Info
	// Diagnose returns what a person needs to find an error: console and logs,
	// at most 64 KiB.
	Diagnose(ctx context.Context) []byte
	Close(ctx context.Context) error
}

// OptionKernelPackage is the option that names the kernel package, for drivers
// that boot a kernel of the image.
const OptionKernelPackage = "kernel-package"

// Freezer is an Instance that can be frozen while others are measured.
type Freezer interface {
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error
}

// Clocked is an Instance with its own clock. bakeoff compares it with the
// host's clock around every trial: a guest with a slow clock looks fast.
type Clocked interface {
	// Clock reads the environment's monotonic clock, whose origin does not
	// change while it lives. The reading happens during the call.
	Clock(ctx context.Context) (time.Duration, error)
}

// Meter is an Instance whose resource usage can be measured on the host: the
// control group of a container, the hypervisor process of a machine.
type Meter interface {
	Usage(ctx context.Context) (facts.Scope, error)
}

// Watched is an Instance whose driver saw how it came up, because Spec.Watch asked for it.
type Watched interface {
	// Moments returns what was seen. It may ask the environment, and so is called once,
	// when nothing is measured.
	Moments(ctx context.Context) (Moments, error)
}

// AsWatched returns what in says about how it came up; false if its driver saw nothing.
// It looks into instances that have a method Unwrap.
func AsWatched(in Instance) (Watched, bool) { return as[Watched](in) }

// as finds an optional interface of an instance, or of one that it wraps.
func as[T any](in Instance) (found T, ok bool) {
	for {
		if found, ok = in.(T); ok {
			return found, true
		}
		u, ok := in.(interface{ Unwrap() Instance })
		if !ok {
			return found, false
		}
		in = u.Unwrap()
	}
}

// Moments are what a driver saw while an environment came up.
type Moments struct {
	List []Moment
	// Absent says why a moment is not known, by its name: a full sentence without its
	// full stop.
	Absent map[string]string
	Log    *HypervisorLog // nil if there is none
	// TSCHz is the frequency of the time stamp counter that the guest reads, as the host knows
	// it; 0 if it does not.
	TSCHz float64
	// TSCFromStart tells that this counter was 0 when the first processor of the guest started.
	TSCFromStart bool
}

// Moment is something that happened while an environment came up.
type Moment struct {
	Name string    // a mark of package bootmodel
	At   time.Time // on the controller's clock
	// Uncertainty is the largest error of At; negative if it is unknown.
	Uncertainty time.Duration
	How         string // how it was seen
}

// HypervisorLog is what a hypervisor wrote about the guest's first instructions, each
// line with a reading of the host's clock.
type HypervisorLog struct {
	Text []byte // complete lines
	Lost bool   // the log was longer than what is kept
	// Stamp is a reading of the host's clock in a line, and At the same moment on the
	// controller's clock, at most Uncertainty away.
	Stamp, At   time.Time
	Uncertainty time.Duration
}

// Rebooted is an Instance that is a whole machine. With Spec.Watch, Create reboots the
// machine: that ends the connection to it, and all else that runs there.
type Rebooted interface {
	// Boots are the boots of the machine before and after the reboot, each a text that
	// changes with every boot. Without Spec.Watch they are the same.
	Boots() (before, after string)
	// Connect opens a connection from the controller's machine to a TCP port of the
	// machine. If SSH leads there over other machines, the error is of kind
	// fault.Unsupported.
	Connect(ctx context.Context, port int) (net.Conn, error)
	// Patience bounds a reboot.
	Patience() time.Duration
}

// AsRebooted returns in as a machine that is rebooted. It looks into instances that have a
// method Unwrap.
func AsRebooted(in Instance) (Rebooted, bool) { return as[Rebooted](in) }

// FactAccelerator is the fact that names what executes the instructions of a
// virtual machine; Emulated is its value for emulation, which is ten to a
// hundred times slower.
const (
	FactAccelerator = "accelerator"
	Emulated        = "tcg"
)

// FactClock is the fact that names what time is in an environment with a clock of its own
// kind; ClockInstructions is its value where executed instructions are the time.
const (
	FactClock         = "clock"
	ClockInstructions = "instructions"
)

// Counted is an Instance on the instruction clock: its boot can be repeated to the
// instruction.
type Counted interface {
	// Counts are the readings of that clock at moments of the boot, in order, the end of
	// the boot last. The clock starts with the first instruction of the machine.
	Counts() []Count
	// Console is the end of what the guest has printed on its serial line, at most 1 MiB.
	Console(ctx context.Context) ([]byte, error)
}

// AsCounted returns the instruction clock of in; false if it is on another one. It looks
// into instances that have a method Unwrap.
func AsCounted(in Instance) (Counted, bool) { return as[Counted](in) }

// Count is a reading of the instruction clock.
type Count struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // instructions, and those that a sleep of the guest would have taken
	// Program is what process 1 executed after the first report; "" for that report.
	Program string `json:"program,omitempty"`
}

// Info describes an environment and its paths.
type Info struct {
	// Agent is the path of bakeoff-agent inside.
	Agent string `json:"agent"`
	// Scratch is a writable directory inside, empty at creation.
	Scratch string `json:"scratch"`
	// Volumes maps the declared path of a volume ("/data") to its path inside.
	// On the bare host they differ.
	Volumes map[string]string `json:"volumes"`
	// Addr is the environment's address on the experiment's network; the zero
	// Addr if it has none.
	Addr netip.Addr `json:"addr"`
	// Listen is where servers inside listen if Addr is not an address inside: it is
	// translated, and leads to Spec.Ports only. The zero Addr means Addr.
	Listen netip.Addr `json:"listen,omitzero"`
	// Limits are the limits that are enforced.
	Limits facts.Limits `json:"limits"`
	// Facts are the driver's facts: FactAccelerator, machine, version of the
	// runtime. They are in the fingerprint as driver.<name>.
	Facts map[string]string `json:"facts"`
	// HostCache says by declared path of a volume whether the page cache of the
	// host holds its blocks too: CacheBypassed, or CacheUsed with the reason. A
	// volume without a file or device of its own has no entry.
	HostCache map[string]string `json:"host_cache,omitempty"`
	// OwnKernel tells that the environment has its own kernel, so its clock and
	// counters are not the host's.
	OwnKernel bool `json:"own_kernel"`
}

// Spec describes the environment to create.
type Spec struct {
	// Label is unique on the host, [a-z0-9-]{1,40}. Everything that is created
	// for the environment has it.
	Label string
	// Name is the contender's.
	Name string
	// Dir is a directory on the host for this environment alone. It exists and
	// is empty. Close and Reap unmount what is in it; its owner removes it.
	Dir string
	// Written is the directory with the written part of the root; "" is Dir. It outlives the environment.
	Written string
	CPUs    int
	CPUSet  []int // of the host; len ≥ 1
	Memory  unit.Bytes
	// Quota is how many CPUs' worth of time the environment may use on CPUSet;
	// 0 means no limit. A driver that cannot enforce it leaves Limits.Quota nil.
	Quota float64
	// Read and Write limit how many bytes per second the environment may read
	// from and write to the disk of Dir; 0 means no limit. A driver that cannot
	// enforce them leaves those of Limits nil.
	Read, Write unit.Bytes
	Image       Image
	Agent       string // path on the host of bakeoff-agent for the environment
	Volumes     []volume.Volume
	// Shares are folders of the host that programs see at a path of their own. Only
	// containers of package isolation and jails have them.
	Shares []Share
	// KeepRoot tells that the root is in Dir already, outlives the environment, and is not made
	// of Image. Only the driver jail, which has jail.MakeRoot for it, knows such roots.
	KeepRoot bool
	Network  *netns.Network // nil: no network at all
	// Ports are the TCP ports at which workloads start servers inside, in ascending order. An
	// environment behind address translation publishes them.
	Ports   []uint16
	Options param.Values
	// Tuning maps sysctl names to values to set inside. Settings that
	// Doc.Tuning does not support are refused with fault.Unsupported.
	Tuning map[string]string
	// Memo caches facts about the host between creations; nil caches nothing.
	Memo *Memo
	// Watch asks the driver to observe how the environment comes up, for Watched. It
	// costs a hypervisor less than a hundredth of the boot.
	Watch bool
}

// Image is an image on the host.
type Image struct {
	Ref    string // as in the lab file: debian:bookworm
	Digest string // sha256:…; empty when the driver takes no image
	Root   string // directory: the unpacked root, never written to
	Disk   string // file: the same root as an ext4 image, never written to
	// Kernel and Modules are for drivers that boot: the kernel image, and the
	// directory with lib/modules/VERSION.
	Kernel, Modules string
	// Files are placed in environments without a root of their own, if Doc.Files.
	// Those of other drivers are in Root and Disk.
	Files []File
	// Start is what the image says about the programs that start in it; nil if it says
	// nothing.
	Start *Start
	// Saved writes the image as its registry has it, in the form of docker save and with a
	// name; nil if the image is bakeoff's own, has placed files, or is on another host.
	Saved func(ctx context.Context, tag string, w io.Writer) error `json:"-"`
}

// File is a file or folder of the host that programs see at a path of their own.
type File struct {
	From string // on the host, never written to
	To   string // inside
}

// Share is a folder of the host in an environment.
type Share struct {
	From, To string
	ReadOnly bool
}

// Start is how an image wants its programs to be started.
type Start struct {
	Env []string // NAME=VALUE
	// User is USER[:GROUP], by names of the image or by numbers; "" is root.
	User string
	Dir  string   // the working folder, absolute; "" if the image names none
	Argv []string // the program that a container of the image starts; empty if it names none
}

// Forwarder is an Instance without an address of its own on the experiment's network.
// Its servers are reached at an address of its host, from that network alone.
type Forwarder interface {
	// Forward returns where the load generator reaches a TCP port of the environment. The
	// same port has the same answer. Without a network, the error is of kind
	// fault.Unsupported.
	Forward(ctx context.Context, port uint16) (netip.AddrPort, error)
}

// Storer is an Instance whose volumes can be looked at from their host.
type Storer interface {
	// SettleVolume returns when everything written to the volume declared at
	// path is on its backing, and says what its file system then holds.
	SettleVolume(ctx context.Context, path string) (volume.Usage, error)
}

// Availability is the answer of Check.
type Availability struct {
	OK bool `json:"ok"`
	// Reason says what is missing: "crun is not installed".
	Reason string `json:"reason,omitempty"`
	// Programs are those that the host lacks, by the name that they are
	// called by.
	Programs []string `json:"programs,omitempty"`
	// Packages are Debian packages that would bring it, by name.
	Packages []string `json:"packages,omitempty"`
	// Fix is the command, or the action, that would make it usable.
	Fix string `json:"fix,omitempty"`
	// Facts is what was found: version, accelerator.
	Facts map[string]string `json:"facts,omitempty"`
}

// Unavailable is the answer that err gives.
func Unavailable(err error) Availability {
	return Availability{Reason: fault.Reason(err), Fix: fault.Fix(err)}
}

// String says what is missing and what would help.
func (a Availability) String() string {
	if a.Fix == "" {
		return a.Reason
	}
	return a.Reason + "; " + a.Fix
}

// Status says how far a driver can be believed.
type Status string

// The states of a driver.
const (
	// Proven drivers pass drivertest with the real technology.
	Proven Status = "proven"
	// Unproven drivers pass it only against a fake of their commands.
	Unproven Status = "unproven"
)

// Doc describes a driver; reference pages and listings are made from it.
type Doc struct {
	Name    string `json:"name"`
	Summary string `json:"summary"` // one sentence without its full stop
	// Also maps other names of the technology to what a lab file says instead.
	Also   map[string]string `json:"-"`
	Status Status            `json:"status"`
	Hosts  []string          `json:"hosts"` // GOOS of the hosts it runs on
	// ProvenOn are those of Hosts on which a proven driver is proven; nil: all of them.
	ProvenOn []string `json:"proven_on,omitempty"`
	Root     bool     `json:"root"`  // needs root on the host
	Image    bool     `json:"image"` // is made from an image
	// Folder tells that the image may also be a folder on the host with a root
	// in it, for systems whose roots bakeoff does not build.
	Folder bool `json:"folder,omitempty"`
	// OwnRoot lists the options (see param.Values.Match) that provide a root, so
	// that no image is needed.
	OwnRoot []string `json:"own_root,omitempty"`
	// OwnSize lists the options (see param.Values.Match) with which an environment has a memory
	// of its own: the usual memory of contenders is not asked of it.
	OwnSize []string `json:"own_size,omitempty"`
	// Standing lists the options (see param.Values.Match) with which an environment is something
	// that exists and outlives the run: it serves all blocks, is never made again, and is not on
	// the experiment's network.
	Standing []string `json:"standing,omitempty"`
	// Agentless lists the options (see param.Values.Match) with which environments have
	// no agent.
	Agentless []string `json:"agentless,omitempty"`
	// Files tells that it places files although it is not made from an image.
	Files  bool `json:"files,omitempty"`
	Kernel bool `json:"kernel"` // boots a kernel of its own
	// Whole tells that an environment is the machine itself: nothing is limited, it has no
	// place on the experiment's network, and a fresh environment is the machine after a
	// reboot.
	Whole bool `json:"whole,omitempty"`
	// EndsOfMemory tells that exceeding the memory limit ends the whole
	// environment, not only the program.
	EndsOfMemory bool         `json:"ends_of_memory,omitempty"`
	Options      []param.Spec `json:"options"`
	// CommandLine returns the words that the driver itself gives to a kernel on every host,
	// with these options; "" if it gives none. nil is the same.
	CommandLine func(param.Values) string `json:"-"`
	// Backings lists the supported volume backings.
	Backings []string `json:"backings"`
	// Enforces maps the name of a limit (cpus, memory, quota, io, network) to
	// what enforces it. Limits that are not named are not enforced.
	Enforces map[string]string `json:"enforces"`
	Tuning   Tuning            `json:"tuning"`
	Packages []string          `json:"packages"` // Debian packages
	Source   []string          `json:"source"`   // manuals
}

// StatusOn is the status of the driver on hosts with a system, as GOOS names it.
func (d Doc) StatusOn(goos string) Status {
	if len(d.ProvenOn) > 0 && !slices.Contains(d.ProvenOn, goos) {
		return Unproven
	}
	return d.Status
}

// Options checks the options that a lab file has for a driver against the
// driver's description and adds the defaults. Errors are of kind fault.Invalid.
func Options(specs []param.Spec, options param.Values) (param.Values, error) {
	out, err := param.Complete(specs, options)
	if err != nil {
		return nil, fault.New(fault.Invalid, "option %w", err)
	}
	return out, nil
}
