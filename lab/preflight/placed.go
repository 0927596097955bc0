package preflight

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/lab/env"
	"bakeoff/lab/inputs"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/binary"
	"bakeoff/provision/driver"
	"bakeoff/provision/image/source"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// searchPath are the folders of PATH in every environment.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// presenceInPlaced tells whether a contender has f among its placed files; missing if it can
// only be elsewhere.
func (v inspector) presenceInPlaced(c plan.Contender, f execution.File) binary.Presence {
	if !path.IsAbs(f.Path) {
		for _, dir := range searchPath {
			if p := v.presenceInPlaced(c, execution.File{Path: dir + "/" + f.Path}); p != missing {
				return p
			}
		}
		return missing
	}
	name := path.Clean(f.Path)
	for _, p := range c.Files {
		switch {
		case strings.HasPrefix(p.To, name+"/"):
			return there // a folder above it
		case name != p.To && !strings.HasPrefix(name, p.To+"/"):
			continue
		case v.Sources == "":
			return unknown
		}
		at, err := os.Stat(v.sourceOf(p, name))
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && f.Folder && !at.IsDir():
			return missing
		case err != nil:
			return unknown
		}
		return there
	}
	return missing
}

// sourceOf is where a placed file, or a file in a placed folder, is on this machine.
func (v inspector) sourceOf(p manifest.File, name string) string {
	return filepath.Join(inputs.At(v.Sources, p), strings.TrimPrefix(name, p.To))
}

// checkFiles turns the answer for a contender into a refusal if its files cannot be placed,
// or if a placed program could not start.
func (v inspector) checkFiles(ctx context.Context, a driver.Availability, c plan.Contender) driver.Availability {
	d := v.driver(c)
	if !a.OK || len(c.Files) == 0 || d == nil || c.System != "" {
		return a
	}
	var err error
	bare := onHostsRoot(d.Doc(), c.Contender)
	if bare {
		err = v.checkPlaces(ctx, c)
	}
	if err == nil && v.Sources != "" {
		err = v.checkPrograms(ctx, c, bare)
	}
	if err != nil {
		return refusal(a, err)
	}
	return a
}

// nearest prints the nearest folder above $1 that exists and how many entries it has,
// or "taken" if a file is in its place.
const nearest = `d=$1; while [ ! -d "$d" ]; do
[ "$d" = "$1" ] || [ ! -e "$d" ] || { echo taken "$d"; exit; }; d=${d%/*}; d=${d:-/}; done
echo "$(ls -A -- "$d" | wc -l)" "$d"`

// checkPlaces asks the host whether the files of a contender can be shown at their paths
// without changing the host: in a cover over the nearest folder that exists.
func (v inspector) checkPlaces(ctx context.Context, c plan.Contender) error {
	host, err := v.Way(hostOf(c))
	if err != nil {
		return nil // reported
	}
	for _, f := range c.Files {
		answer := v.askOnce("nearest "+hostOf(c)+" "+f.To, func() string {
			out, err := conn.Output(ctx, host, "sh", "-c", nearest, "sh", f.To)
			if err != nil {
				return ""
			}
			return strings.TrimSpace(string(out))
		})
		count, dir, ok := strings.Cut(answer, " ")
		n, _ := strconv.Atoi(count)
		switch {
		case !ok || dir == f.To:
		case count == "taken":
			err = fault.New(fault.Invalid, "%s is a file on the host, not a folder, so %s cannot be below it", dir, f.To)
		case dir == "/":
			err = fault.New(fault.Invalid, "the host has none of the folders above %s except /", f.To)
		case n > wire.MaxPlaced:
			err = fault.New(fault.Invalid, "the folder %s on the host has %d entries; bakeoff can place a file only "+
				"in a folder with at most %d", dir, n, wire.MaxPlaced)
		}
		if err != nil {
			return fault.WithFix(fault.Op(f.Where, err), "write to: /opt/"+path.Base(f.To)+", or another path below a small "+
				"folder that the host has")
		}
	}
	return nil
}

// checkPrograms checks the programs among the files of a contender: those that are placed
// as a single file, and those that its cells name.
func (v inspector) checkPrograms(ctx context.Context, c plan.Contender, bare bool) error {
	named := map[string]bool{}
	loads := c.Env["LD_LIBRARY_PATH"] != "" // where the programs look for libraries is not known
	for _, cell := range v.plan.Cells {
		for _, f := range v.filesOf(cell, c) {
			if !f.Folder {
				named[path.Clean(f.Path)] = true
			}
		}
		loads = loads || slices.ContainsFunc(c.CellOf(cell.Cell).Params.List(paramEnv), func(e string) bool {
			return strings.HasPrefix(e, "LD_LIBRARY_PATH=")
		})
	}
	on, err := v.environmentOf(ctx, c, bare)
	if err != nil {
		return err
	}
	if loads {
		on.Libraries = nil
	}
	for _, f := range c.Files {
		names := []string{f.To}
		for name := range named {
			if strings.HasPrefix(name, f.To+"/") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if err := v.checkProgram(f, name, named[name] && programParam(v, c, name), on); err != nil {
				return fault.Op(f.Where, err)
			}
		}
	}
	return nil
}

// programParam reports whether a cell executes name, and does not only read it.
func programParam(v inspector, c plan.Contender, name string) bool {
	for _, cell := range v.plan.Cells {
		params := c.CellOf(cell.Cell).Params
		for _, key := range []string{"argv", "run", "prepare", "reset", "cleanup"} {
			if argv := params.List(key); len(argv) > 0 && path.Clean(argv[0]) == name {
				return true
			}
		}
	}
	return false
}

// checkProgram checks one placed file; executed tells that a cell executes it.
func (v inspector) checkProgram(f manifest.File, name string, executed bool, on binary.Environment) error {
	file := v.sourceOf(f, name)
	at, err := os.Stat(file)
	if err != nil || !at.Mode().IsRegular() {
		return nil
	}
	mode := at.Mode().Perm()
	if f.Perm() != 0 && name == f.To {
		mode = f.Perm()
	}
	if mode&0o111 == 0 {
		if !executed {
			return nil
		}
		fix := "run chmod +x on it"
		if name == f.To {
			fix = "add mode: 0755 to it"
		}
		return fault.WithFix(fault.New(fault.Invalid, "%s is not executable", f.From), fix)
	}
	r, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer r.Close()
	p, err := binary.Read(r)
	if err != nil {
		return fault.WithFix(fault.New(fault.Invalid, "%s is damaged: %w", f.From, err), "build the program again")
	}
	return on.CheckStart(p, f.From, name)
}

// environmentOf returns what is known of a contender's environments.
func (v inspector) environmentOf(ctx context.Context, c plan.Contender, bare bool) (binary.Environment, error) {
	if bare {
		return v.hostEnvironment(ctx, c), nil
	}
	packages, err := Packages(v.plan, v.Workloads, c.Contender)
	if err != nil {
		return binary.Environment{}, err
	}
	root := env.Root(v.Cache, v.driver(c).Doc(), env.OriginOf(c.Contender), packages, c.Options)
	e := binary.Environment{Name: "image " + c.Image, Arch: runtime.GOARCH}
	placed := func(name string) binary.Presence { return v.presenceInPlaced(c, execution.File{Path: name}) }
	if root != "" {
		return e.WithRoot(root, placed), nil
	}
	e.Has = func(name string) binary.Presence {
		if p := placed(name); p != missing {
			return p
		}
		return binary.LoaderOf(c.Image, name, packages)
	}
	return e, nil
}

// hostEnvironment is the environment of programs on the host's own root.
func (v inspector) hostEnvironment(ctx context.Context, c plan.Contender) binary.Environment {
	e := binary.Environment{Name: "host " + hostOf(c)}
	host, err := v.Way(hostOf(c))
	ask := func(argv ...string) string {
		return v.askOnce(strings.Join(append([]string{hostOf(c)}, argv...), " "), func() string {
			if err != nil {
				return ""
			}
			out, err := conn.Output(ctx, host, argv...)
			if err != nil {
				return ""
			}
			return string(out)
		})
	}
	e.Arch = source.Arches[strings.TrimSpace(ask("uname", "-m"))]
	e.Has = func(name string) binary.Presence {
		if p := v.presenceInPlaced(c, execution.File{Path: name}); p != missing {
			return p
		}
		return v.presenceOnHost(ctx, c, execution.File{Path: name}, name)
	}
	return e.WithLibraryCache(ask("/sbin/ldconfig", "-p"))
}
