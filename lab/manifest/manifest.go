// Package manifest reads and checks the lab file, which says what to compare.
package manifest

import (
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/measure/workload"
)

// Schema is the schema of a lab file.
const Schema = "bakeoff/lab/v1"

// Lab is a lab file that was read and checked against a Catalogue: every
// name in it exists and every default is filled in.
type Lab struct {
	Schema string          `json:"schema"`
	Name   string          `json:"name"`
	Hosts  map[string]Host `json:"hosts"` // "local" only if the lab file has settings for it
	// Generator is the host that load comes from; "" is each contender's own.
	Generator  string      `json:"generator,omitempty"`
	Contenders []Contender `json:"contenders"`
	Baseline   string      `json:"baseline"`
	Cells      []Cell      `json:"cells"`
	// Files are placed in the environments of all contenders.
	Files    []File   `json:"files,omitempty"`
	Design   Design   `json:"design"`
	Profile  string   `json:"profile"`  // the one applied, or ""
	Profiles []string `json:"profiles"` // names of all, sorted
	// Only names the cells that Keep left; empty: all.
	Only   []string `json:"only,omitempty"`
	Path   string   `json:"-"`
	Source []byte   `json:"-"` // as written
	// Packed holds what is known of the contents of files: see FilesOf.
	Packed map[FileKey]Packed `json:"-"`
	// Pinned holds, by Contender.Image, which images those are. A name that is missing
	// needs no more than itself.
	Pinned map[string]Pinned `json:"-"`
	// LooksFor is the time limit from which the looks follow; 0: those of Design.
	LooksFor time.Duration `json:"-"`
	// FailOn are the conditions of --fail-on that the plan registers.
	FailOn []string `json:"-"`
}

// Host is a machine that bakeoff drives.
type Host struct {
	SSH  string `json:"ssh,omitempty"`
	Port int    `json:"port,omitempty"` // 0: what ssh's configuration says
	// Dir is the folder on it for all files of bakeoff; "" means the default
	// places.
	Dir string `json:"dir,omitempty"`
	// Repair is executed on it before every block.
	Repair []string `json:"repair,omitempty"`
	// Meter prints the reading of an energy meter, in joules.
	Meter  []string            `json:"meter,omitempty"`
	Switch map[string][]string `json:"switch,omitempty"` // system → argv
	// Reboot is the command that reboots it after Switch; empty means the
	// system's own.
	Reboot []string `json:"reboot,omitempty"`
	// Expect is, by system of Switch, a text that the name of the system
	// there has (the facts os or kernel); without it the system's own name.
	Expect map[string]string `json:"expect,omitempty"`
	// EqualTo names a host that is declared to be the same hardware.
	EqualTo string `json:"equal_to,omitempty"`
	// Address is where the generator reaches the bare machine; "" is where ssh does.
	Address string `json:"address,omitempty"`
	// Uplink is a network interface that connects it with the generator's host and
	// that nothing else uses; "" if the generator is on the host itself.
	Uplink string `json:"uplink,omitempty"`
	// Pool is the pool of a cluster that the host comes from, and Count is on how many of
	// its hosts the lab runs. Bind says which host that is.
	Pool  string `json:"pool,omitempty"`
	Count int    `json:"count,omitempty"`
}

// Contender is one side of the comparison.
type Contender struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	Host   string `json:"host"`             // "local" by default
	System string `json:"system,omitempty"` // of Host.Switch
	Image  string `json:"image,omitempty"`
	// Pinned says which image that is. A lab file does not know it: see Lab.Pinned.
	Pinned  *Pinned           `json:"pinned,omitempty"`
	CPUs    int               `json:"cpus"`
	Memory  unit.Bytes        `json:"memory_bytes"`
	Quota   float64           `json:"cpu_quota,omitempty"` // CPUs' worth of time; 0: no limit
	IO      IO                `json:"io,omitzero"`
	Volumes []Volume          `json:"volumes,omitempty"`
	Options param.Values      `json:"options,omitempty"` // the driver's own
	Tuning  map[string]string `json:"tuning,omitempty"`
	// Params are parameters of workloads, by the name of the cell. They override
	// those of the cell.
	Params map[string]param.Values `json:"params,omitempty"`
	// Env are environment variables of the programs that workloads run in it.
	Env map[string]string `json:"env,omitempty"`
	// Packages are packages of the distribution that its environments have in
	// addition to those of the workloads; sorted.
	Packages []string `json:"packages,omitempty"`
	// Files are placed in its environments; in a plan, also those of the lab and of
	// cells.
	Files []File `json:"files,omitempty"`
	// Sweep is its place in a sweep; nil if it is not part of one.
	Sweep *analysis.Sweep `json:"sweep,omitempty"`
	// Where says at which "file:line:column" of the lab file image, cpus, memory,
	// quota, io, volumes and packages were asked for, by these keys; nothing of
	// it is registered.
	Where map[string]string `json:"-"`
}

// IO is how many bytes a second a contender may read from and write to the disk
// of its environment's directory; 0 means no limit.
type IO struct {
	Read  unit.Bytes `json:"read_bytes_per_second,omitempty"`
	Write unit.Bytes `json:"write_bytes_per_second,omitempty"`
}

// Volume is storage of a contender.
type Volume struct {
	Path    string     `json:"path"`
	Backing string     `json:"backing"`
	Size    unit.Bytes `json:"size_bytes,omitempty"`
	Device  string     `json:"device,omitempty"`
	Pool    string     `json:"pool,omitempty"`
	// Properties are the file system's, by name: compression, recordsize.
	Properties map[string]string `json:"properties,omitempty"`
}

// Cell is a workload with one set of its parameters.
type Cell struct {
	Name     string       `json:"name"`
	Workload string       `json:"workload"`
	Params   param.Values `json:"params"`
	// Profiles are those whose runs contain the cell; nil: every run does.
	Profiles []string `json:"-"`
	// Primary names the metrics that get a verdict; empty: none.
	Primary []string `json:"primary"`
	// Files are placed in the environments of all contenders.
	Files []File `json:"-"`
}

// Design is the experiment's.
type Design struct {
	Margin float64   `json:"margin"`
	Looks  []int     `json:"looks"`
	Alphas []float64 `json:"alphas"`
	// Instances is "block" (new environments for each block) or "run".
	Instances string        `json:"instances"`
	Mirror    bool          `json:"mirror"`
	Budget    time.Duration `json:"budget_ns"` // 0: none
	// Blocks caps the number of blocks below the last look; 0: the last look.
	Blocks int `json:"blocks"`
	// ExactTrials is the number of trials of each side that must agree before a metric
	// counts as exact; 0: analysis.Repeats, the least.
	ExactTrials int `json:"exact_trials,omitempty"`
	// Written tells that the lab file has looks, alphas or blocks.
	Written bool `json:"-"`
}

// Catalogue lists the drivers and workloads that lab files can name. It is made
// from the Doc of every driver and workload.
type Catalogue struct {
	Drivers   []DriverEntry
	Workloads []WorkloadEntry
	// Image returns an error, with a fix, for a name of which no image can be made;
	// nil accepts any name.
	Image func(ref string) error
	// Starts tells whether an image with this name says which program starts in it; nil
	// leaves it open, as where a run folder is read.
	Starts func(ref string) bool
}

// DriverEntry is what the lab file must know of a driver.
type DriverEntry struct {
	Name     string            `json:"name"`
	Summary  string            `json:"summary"`
	Also     map[string]string `json:"also,omitempty"` // other names that people look for, and what is to be written
	Options  []param.Spec      `json:"options"`
	Image    bool              `json:"image,omitempty"`    // it makes its root from an image,
	Folder   bool              `json:"folder,omitempty"`   // which may be a folder on the host, too,
	OwnRoot  []string          `json:"own_root,omitempty"` // unless these options (see param.Values.Match) bring their own
	OwnSize  []string          `json:"own_size,omitempty"` // with these options it has a memory of its own
	Standing []string          `json:"standing,omitempty"` // with these options an environment exists and outlives the run
	Files    bool              `json:"files,omitempty"`    // it places files without an image
	Whole    bool              `json:"whole,omitempty"`    // an environment is the machine, with its own network
	Backings []string          `json:"backings"`
	// Tunes returns an error, with a fix, for a setting that its environments
	// cannot have separately from the host; nil accepts any setting.
	Tunes func(name string) error `json:"-"`
	// CommandLine returns the words that the driver itself gives to a kernel; nil if it
	// gives none.
	CommandLine func(param.Values) string `json:"-"`
}

// WorkloadEntry is what the lab file must know of a workload.
type WorkloadEntry struct {
	Name, Summary string
	Params        []param.Spec
	Metrics       []sample.Metric
	Volume        string // parameter with the path of the volume it needs
	// Files are those that it keeps there; nil if their size is unknown.
	Files func(param.Values) workload.Files `json:"-"`
	// FileMemory is how many times as large as the memory they must be at least; 0: any size.
	FileMemory int
	Memory     string // parameter with that memory, if it is not the environment's; "" if there is none
}
