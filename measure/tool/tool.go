// Package tool is the contract of external benchmark programs.
//
// A tool knows three things of a program that others wrote: how it is called,
// how it tells its version, and what its output says – each with the traps
// that the program has. It starts nothing: package workload/external makes a
// workload of a tool. Each child package is one tool; package all lists them;
// package tooltest is the suite that every one of them passes.
//
// A tool's program is the one that the system packages ("as the platform ships
// it"), so two contenders may run two different builds. What is known of the
// build joins the fingerprint, and a difference is a confounder.
package tool

import (
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
)

// Tool is an external benchmark program.
type Tool interface {
	Doc() Doc
	// Command returns what one trial with the parameters p executes. An
	// error of kind fault.Invalid says which parameters do not fit together.
	Command(p param.Values, at Place) (Command, error)
	// Version reads what the program printed when it was called with
	// Doc.VersionArgs (standard output, then standard error). The facts are
	// those of its build that can change its figures; "version" is one.
	Version(out []byte) (map[string]string, error)
	// Parse reads the output of one trial. It is pure. An error of kind
	// fault.Subject says that the trial failed; any other that the output is
	// unreadable. A metric that the program could not measure is absent.
	Parse(out Output, p param.Values) (Result, error)
}

// Preparer is a Tool that needs commands once in each environment before its
// trials: files that it reads, tables that it fills.
type Preparer interface {
	Prepare(p param.Values, at Place) ([]Command, error)
}

// Resetter is a Tool that needs commands before each trial, untimed.
type Resetter interface {
	Reset(p param.Values, at Place) ([]Command, error)
}

// Noter is a Tool that knows what to hold against its figures in a place: a
// flag that the file system ignores, files that memory can hold. What it says
// joins the facts of Version.
type Noter interface {
	Notes(p param.Values, at Place) map[string]string
}

// Server is what must answer before a tool can start.
type Server string

// The servers.
const (
	None Server = ""
	// Web is the nginx of the workload http, in the environment; the tool
	// runs at the other end, outside.
	Web Server = "http"
	// Database is a PostgreSQL in the environment, and the tool beside it.
	Database Server = "postgresql"
)

// Doc describes a tool; reference pages, listings and the workload that is
// made of it come from it.
type Doc struct {
	Name    string `json:"name"`
	Summary string `json:"summary"` // one sentence without its full stop
	// Program is the executable, looked for in Dirs (patterns of the shell's),
	// then in PATH.
	Program     string   `json:"program"`
	Dirs        []string `json:"dirs,omitempty"`
	VersionArgs []string `json:"version_args"`
	// Packages bring it, by system as package system names them (debian,
	// freebsd, …). A system without an entry has no package.
	Packages map[string][]string `json:"packages"`
	Metrics  []sample.Metric     `json:"metrics"`
	Params   []param.Spec        `json:"params"`
	Server   Server              `json:"server,omitempty"`
	// Volume names the parameter that holds the path of the volume that it
	// works in; "" if it needs none.
	Volume string `json:"volume,omitempty"`
	// State and Cache are as in workload.Doc.
	State string `json:"state"`
	Cache string `json:"cache"`
	// Time estimates one trial with its reset.
	Time func(p param.Values) time.Duration `json:"-"`
	// Parser counts the versions of Parse, from 1.
	Parser int      `json:"parser"`
	Source []string `json:"source"` // manuals
}

// Metric returns the metric called name.
func (d Doc) Metric(name string) (sample.Metric, bool) {
	for _, m := range d.Metrics {
		if m.Name == name {
			return m, true
		}
	}
	return sample.Metric{}, false
}

// Place is where a tool runs.
type Place struct {
	// Dir is a directory of the tool's own, which is its working directory
	// and its HOME; Data is one in the volume that Doc.Volume names, or Dir.
	Dir, Data string
	// FileSystem is the type of the file system that Data is in, as df names
	// it ("ext4", "zfs"); "" where nobody knows.
	FileSystem string
	// UID is who runs it, as a number ("0"); "" where systems have none.
	UID string
	// MemoryBytes is what the environment may use; 0 where nobody knows.
	MemoryBytes int64
	// URL is the page that a tool with a Web server asks for; URLs are the
	// pages where there are several, and URL is then not used.
	URL  string
	URLs []string `json:",omitempty"`
	// Host and Port reach the Database: Host is a directory with its socket.
	Host, User, Database string
	Port                 int
}

// Command is a program that is executed in Place.Dir.
type Command struct {
	Argv []string // Argv[0] is Doc.Program, or a program of the system
	Env  []string // NAME=VALUE
	// Files are written into Place.Dir first, by name.
	Files map[string]string
	// Keep are files in Place.Dir that are part of the output, by the name
	// that they get in it. A name that ends in * stands for all files that
	// begin like that, joined in order. They are removed beforehand, so that
	// what is read is this trial's.
	Keep map[string]string
}

// Output is what a trial left. The program ended with exit code 0.
type Output struct {
	Stdout, Stderr []byte
	Files          map[string][]byte // by the names of Command.Keep
	// Facts are those of Version.
	Facts   map[string]string
	Elapsed time.Duration // of the whole program
}

// Result is what an output says.
type Result struct {
	Values []sample.Value
	// Work is the number of units of work of the whole trial, which cost is
	// shared out to; 0 where it is not known.
	Work float64
	// Errors counts failed operations by class; one that failed is not a
	// fast one, and the gate "errors" holds the comparison back.
	Errors map[string]int64
	// Threads is the number of the load generator's threads, for the gate
	// that tells when it had no CPU time left; 0 where the tool is none.
	Threads int
}

// Add appends a value of the metric called name, which must be declared.
func (r *Result) Add(d Doc, name string, value float64) {
	m, ok := d.Metric(name)
	if !ok {
		panic("tool: " + d.Name + " has no metric " + name)
	}
	r.Values = append(r.Values, sample.Value{Metric: name, Unit: m.Unit, Value: value})
}

// Count adds n failures to a class; none are not a class.
func (r *Result) Count(class string, n int64) {
	if n == 0 {
		return
	}
	if r.Errors == nil {
		r.Errors = map[string]int64{}
	}
	r.Errors[class] += n
}
