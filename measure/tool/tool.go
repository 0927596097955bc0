// Package tool is the contract of external benchmark programs.
//
// A tool knows how to call a program that others wrote, how to get its version,
// and how to parse its output, including the program's pitfalls. It starts
// nothing: package workload/external makes a workload of a tool. Each child
// package is one tool; package all lists them; package tooltest is the suite
// that every one of them passes.
//
// The program is the packaged one of the system ("as the platform ships it"),
// so two contenders may run different builds. The facts of the build become
// part of the fingerprint, and a difference is a confounder.
package tool

import (
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
)

// Tool is an external benchmark program.
type Tool interface {
	Doc() Doc
	// Command returns the command of one trial with the parameters p. An
	// error of kind fault.Invalid says which parameters contradict each
	// other.
	Command(p param.Values, at Place) (Command, error)
	// Version parses the output of the program for Doc.VersionArgs
	// (standard output, then standard error). It returns the facts of the
	// build that can change its results; "version" is one.
	Version(out []byte) (map[string]string, error)
	// Parse parses the output of one trial. It is pure. An error of kind
	// fault.Subject says that the trial failed, any other that the output
	// cannot be parsed. A metric that the program did not measure is
	// absent.
	Parse(out Output, p param.Values) (Result, error)
}

// Preparer is a Tool that runs commands once in each environment before its
// trials, to create the files or tables that it needs.
type Preparer interface {
	Prepare(p param.Values, at Place) ([]Command, error)
}

// Resetter is a Tool that runs commands before each trial, untimed.
type Resetter interface {
	Reset(p param.Values, at Place) ([]Command, error)
}

// Prober is a Tool whose commands depend on what a place supports.
type Prober interface {
	// Probe returns a command that ends with exit code 0 if the place supports
	// it (see Place.Probed); nil if nothing depends on it.
	Probe(p param.Values, at Place) []string
}

// Caveat is the name of the note with what a result does not describe, in a few
// words: every comparison shows it.
const Caveat = workload.Caveat

// CaveatFix is the name of the note with what to change for a result without the
// caveat; `bakeoff plan` shows it.
const CaveatFix = "caveat-fix"

// Noter is a Tool that knows the limitations of its results in a place: a flag
// that the file system ignores, files that fit in memory. The notes join the
// facts of Version.
type Noter interface {
	Notes(p param.Values, at Place) map[string]string
}

// Counted is a Tool whose parameters fix how many values a trial has; see
// workload.Counted.
type Counted interface {
	Few(p param.Values, metrics []string) (caveat, fix string)
}

// Server is a server that a tool needs.
type Server string

// The servers.
const (
	None Server = ""
	// Web is the nginx of the workload http in the environment; the tool
	// runs outside, as a client.
	Web Server = "http"
	// Database is a PostgreSQL in the environment; the tool runs there,
	// too.
	Database Server = "postgresql"
)

// Doc describes a tool; reference pages, listings and its workload are made
// from it.
type Doc struct {
	Name    string `json:"name"`
	Summary string `json:"summary"` // one sentence without its full stop
	// Program is the executable. It is searched in Dirs (shell patterns),
	// then in PATH.
	Program     string   `json:"program"`
	Dirs        []string `json:"dirs,omitempty"`
	VersionArgs []string `json:"version_args"`
	// Tried are the series of versions whose output Parse was tried with, the oldest
	// first: "1.0" stands for 1.0.20. Least is the oldest version whose output it can
	// read, by the program's history; "" is unknown.
	Tried []string `json:"tried"`
	Least string   `json:"least,omitempty"`
	// Packages are the packages to install, by system (debian, freebsd, …
	// as in package system). A system without an entry has no package.
	Packages map[string][]string `json:"packages"`
	Metrics  []sample.Metric     `json:"metrics"`
	Params   []param.Spec        `json:"params"`
	Server   Server              `json:"server,omitempty"`
	// Protocol is the only one that a load generator with these parameters can speak, such as
	// HTTP/1.1, whatever the server offers; nil if it has none, or if its output names it.
	Protocol func(p param.Values) string `json:"-"`
	// Volume names the parameter with the path of the volume that it uses;
	// "" if it needs none.
	Volume string `json:"volume,omitempty"`
	// FileSize names the parameter with the size of the file in the volume.
	FileSize string `json:"file_size,omitempty"`
	// FileMemory is how many times as large as the memory the file must be at least; 0
	// permits any size. Memory names the parameter with the size of that memory, if
	// it is not the environment's; "" if there is none.
	FileMemory int    `json:"file_memory,omitempty"`
	Memory     string `json:"memory,omitempty"`
	// State and Cache are as in workload.Doc.
	State string `json:"state"`
	Cache string `json:"cache"`
	// Time estimates one trial with its reset.
	Time func(p param.Values) time.Duration `json:"-"`
	// Parser is the version of Parse, from 1.
	Parser int      `json:"parser"`
	Source []string `json:"source"` // manuals
}

// Metric returns the metric called name.
func (d Doc) Metric(name string) (sample.Metric, bool) { return sample.Named(d.Metrics, name) }

// Everywhere returns the packages of a program whose package has the same name on
// all systems.
func Everywhere(name string) map[string][]string {
	out := map[string][]string{}
	for _, system := range []string{"alpine", "debian", "dragonfly", "freebsd", "netbsd", "openbsd", "smartos"} {
		out[system] = []string{name}
	}
	return out
}

// Place is where a tool runs.
type Place struct {
	// Dir is the tool's private directory: its working directory and HOME.
	// Data is a directory in the volume of Doc.Volume, or Dir.
	Dir, Data string
	// FileSystem is the type of the file system of Data, as df prints it
	// ("ext4", "zfs"); "" if unknown.
	FileSystem string
	// Properties are those of the file system that the lab file sets.
	Properties map[string]string `json:",omitempty"`
	// UID is the numeric user ID ("0"); "" on systems without one.
	UID string
	// Probed says that the command of Prober succeeded.
	Probed bool `json:",omitempty"`
	// HostCaches says that the host caches the file of Data's volume.
	HostCaches bool `json:",omitempty"`
	// MemoryBytes is how much memory the environment may use; 0 if unknown.
	MemoryBytes int64
	// URL is the page that a tool with a Web server requests; URLs replaces
	// it if there are several pages.
	URL  string
	URLs []string `json:",omitempty"`
	// Host and Port are the address of the Database; Host is the directory
	// of its socket.
	Host, User, Database string
	Port                 int
}

// Command is a program that is executed in Place.Dir.
type Command struct {
	Argv []string // Argv[0] is Doc.Program, or a program of the system
	Env  []string // NAME=VALUE
	// Files are written into Place.Dir first, by name.
	Files map[string]string
	// Keep maps names in the output to files in Place.Dir. A file name that
	// ends in * stands for all files with that prefix, joined in order.
	// They are removed before the trial, so that no old file is read.
	Keep map[string]string
}

// Output is the output of a trial whose program ended with exit code 0.
type Output struct {
	Stdout, Stderr []byte
	Files          map[string][]byte // by the names of Command.Keep
	// Facts are those of Version.
	Facts   map[string]string
	Elapsed time.Duration // of the whole program
}

// Result is the parsed output of a trial.
type Result struct {
	Values []sample.Value
	// Work is the number of units of work in the whole trial, for costs per
	// unit; 0 if unknown.
	Work float64
	// Errors counts failed operations by class. A failed operation is not a
	// fast one: the gate "errors" withholds the verdict.
	Errors map[string]int64
	// OwnTime says why the length that the program reports cannot be that of its
	// test; "" if nothing contradicts it. The gate "own-time" withholds the verdict.
	OwnTime string
	// Protocol is the one that the output of a load generator names, such as HTTP/2; "" if it
	// names none.
	Protocol string
	// Threads is the number of threads of a load generator, for the gate
	// that detects when it had no CPU time left; 0 if the tool is not a
	// load generator.
	Threads int
}

// Add appends a value of the metric called name, which Doc must declare.
func (r *Result) Add(d Doc, name string, value float64) {
	m, ok := d.Metric(name)
	if !ok {
		panic("tool: " + d.Name + " has no metric " + name)
	}
	r.Values = append(r.Values, sample.Value{Metric: name, Unit: m.Unit, Value: value})
}

// AddKnown is Add unless the value is 0, which a program prints for what it did
// not measure.
func (r *Result) AddKnown(d Doc, name string, value float64) {
	if value > 0 {
		r.Add(d, name, value)
	}
}

// Count adds n failures to a class; n may be 0.
func (r *Result) Count(class string, n int64) {
	if n == 0 {
		return
	}
	if r.Errors == nil {
		r.Errors = map[string]int64{}
	}
	r.Errors[class] += n
}
