package trial

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
	"bakeoff/lab/manifest"
	"bakeoff/lab/packing"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/binary"
	"bakeoff/provision/driver"
	"bakeoff/provision/image"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// searchPath are the folders of PATH in every environment.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// inPlaced tells whether a contender has f among its placed files; missing if it can
// only be elsewhere.
func (v viewer) inPlaced(c plan.Contender, f execution.File) presence {
	if !path.IsAbs(f.Path) {
		for _, dir := range searchPath {
			if p := v.inPlaced(c, execution.File{Path: dir + "/" + f.Path}); p != missing {
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
		at, err := os.Stat(v.source(p, name))
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

// source is where a placed file, or a file in a placed folder, is on this machine.
func (v viewer) source(p manifest.File, name string) string {
	return filepath.Join(packing.At(v.Sources, p), strings.TrimPrefix(name, p.To))
}

// fits turns the answer for a contender into a refusal if its files cannot be placed,
// or if a placed program could not start.
func (v viewer) fits(ctx context.Context, a driver.Availability, c plan.Contender) driver.Availability {
	d := v.driver(c)
	if !a.OK || len(c.Files) == 0 || d == nil || c.System != "" {
		return a
	}
	var err error
	bare := onHostsRoot(d.Doc(), c.Contender)
	if bare {
		err = v.placeable(ctx, c)
	}
	if err == nil && v.Sources != "" {
		err = v.startable(ctx, c, bare)
	}
	if err != nil {
		fix := fault.Fix(err)
		return driver.Availability{Reason: strings.TrimSuffix(err.Error(), "; "+fix), Fix: fix, Facts: a.Facts}
	}
	return a
}

// nearest prints the nearest folder above $1 that exists and how many entries it has,
// or "taken" if a file is in its place.
const nearest = `d=$1; while [ ! -d "$d" ]; do
[ "$d" = "$1" ] || [ ! -e "$d" ] || { echo taken "$d"; exit; }; d=${d%/*}; d=${d:-/}; done
echo "$(ls -A -- "$d" | wc -l)" "$d"`

// placeable asks the host whether the files of a contender can be shown at their paths
// without changing the host: in a cover over the nearest folder that exists.
func (v viewer) placeable(ctx context.Context, c plan.Contender) error {
	host, err := v.Way(hostOf(c))
	if err != nil {
		return nil // reported
	}
	for _, f := range c.Files {
		answer := v.once("nearest "+hostOf(c)+" "+f.To, func() string {
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
			err = fault.New(fault.Invalid, "%s is a file on the host, and %s is below it", dir, f.To)
		case dir == "/":
			err = fault.New(fault.Invalid, "no folder above %s exists on the host but /", f.To)
		case n > wire.MaxPlaced:
			err = fault.New(fault.Invalid, "%s on the host has %d entries, and a file can be placed only in a folder with at "+
				"most %d", dir, n, wire.MaxPlaced)
		}
		if err != nil {
			return fault.WithFix(fault.Op(f.Where, err), "write to: /opt/"+path.Base(f.To)+", or another path below a small "+
				"folder that the host has")
		}
	}
	return nil
}

// startable checks the programs among the files of a contender: those that are placed
// as a single file, and those that its cells name.
func (v viewer) startable(ctx context.Context, c plan.Contender, bare bool) error {
	named := map[string]bool{}
	loads := c.Env["LD_LIBRARY_PATH"] != "" // where the programs look for libraries is not known
	for _, cell := range v.plan.Cells {
		for _, f := range v.files(cell, c) {
			if !f.Folder {
				named[path.Clean(f.Path)] = true
			}
		}
		loads = loads || slices.ContainsFunc(c.CellOf(cell.Cell).Params.List(paramEnv), func(e string) bool {
			return strings.HasPrefix(e, "LD_LIBRARY_PATH=")
		})
	}
	ground, err := v.ground(ctx, c, bare)
	if err != nil {
		return err
	}
	if loads {
		ground.libraries = nil
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
			if err := v.starts(f, name, named[name] && programParam(v, c, name), ground); err != nil {
				return fault.Op(f.Where, err)
			}
		}
	}
	return nil
}

// programParam reports whether a cell executes name, and does not only read it.
func programParam(v viewer, c plan.Contender, name string) bool {
	for _, cell := range v.plan.Cells {
		params := c.CellOf(cell.Cell).Params
		for _, key := range []string{"argv", "prepare", "reset", "cleanup"} {
			if argv := params.List(key); len(argv) > 0 && path.Clean(argv[0]) == name {
				return true
			}
		}
	}
	return false
}

// starts checks one placed file; executed tells that a cell executes it.
func (v viewer) starts(f manifest.File, name string, executed bool, on ground) error {
	file := v.source(f, name)
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
		return fault.WithFix(fault.New(fault.Invalid, "%s is damaged: %w", f.From, err), "build it again")
	}
	return on.runs(p, f.From, name)
}

// ground is what is known of the environments in which a placed program starts.
type ground struct {
	what string // image debian:bookworm, or host local
	arch string // GOARCH; "" is unknown
	// has tells whether a path exists.
	has func(name string) presence
	// libraries tells whether a library exists that a program looks for in these
	// folders first; nil: it is not known.
	libraries func(name string, first []string) presence
}

// static is how a program is built that needs nothing of its environment.
const static = "build it statically (Go: CGO_ENABLED=0, C: -static)"

// runs returns why a program cannot start there. from is the name of its file in the
// lab file, to its path.
func (g ground) runs(p binary.Program, from, to string) error {
	switch {
	case p.Script:
		if g.has(p.Interpreter) == missing {
			return fault.WithFix(fault.New(fault.Invalid, "%s is a script for %s, which %s does not have", from, p.Interpreter,
				g.what), "bring the interpreter, too, or name another one in the first line")
		}
		return nil
	case p.System == "":
		return nil
	case p.System != "linux":
		return fault.WithFix(fault.New(fault.Invalid, "%s is a program for %s, and %s runs Linux", from, p.System, g.what),
			"build it for Linux, in Go with GOOS=linux")
	case g.arch != "" && p.Arch != g.arch && !(p.Arch == "386" && g.arch == "amd64"):
		other := p.Arch
		if other == "" {
			other = "another processor"
		}
		return fault.WithFix(fault.New(fault.Invalid, "%s is a program for %s, and %s is %s", from, other, g.what, g.arch),
			"build it for "+g.arch+", in Go with GOARCH="+g.arch)
	case p.Interpreter == "":
		return nil
	case g.has(p.Interpreter) == missing:
		library, images := "glibc", "debian:bookworm"
		if strings.Contains(p.Interpreter, "ld-musl") {
			library, images = "musl", "alpine"
		}
		return fault.WithFix(fault.New(fault.Invalid, "%s needs the loader %s (%s), which %s does not have", from,
			p.Interpreter, library, g.what), static+", or use an image with "+library+", such as "+images)
	case g.libraries == nil:
		return nil
	}
	var first []string
	for _, dir := range p.Search {
		first = append(first, strings.NewReplacer("$ORIGIN", path.Dir(to), "${ORIGIN}", path.Dir(to)).Replace(dir))
	}
	for _, name := range p.Needed {
		if g.libraries(name, first) == missing {
			return fault.WithFix(fault.New(fault.Invalid, "%s needs the shared library %s, which %s does not have", from, name,
				g.what), static+", write the package that has it into packages, or place the library, too, in a "+
				"folder that the program searches (-Wl,-rpath)")
		}
	}
	return nil
}

// ground returns what is known of a contender's environments.
func (v viewer) ground(ctx context.Context, c plan.Contender, bare bool) (ground, error) {
	if bare {
		return v.hostGround(ctx, c), nil
	}
	packages, err := Packages(v.plan, v.Workloads, c.Contender)
	if err != nil {
		return ground{}, err
	}
	root := env.Root(v.Cache, v.driver(c).Doc(), env.OriginOf(c.Contender), packages, c.Options)
	g := ground{what: "image " + c.Image, arch: runtime.GOARCH}
	placed := func(name string) presence { return v.inPlaced(c, execution.File{Path: name}) }
	if root != "" {
		return g.onRoot(root, placed), nil
	}
	g.has = func(name string) presence {
		if p := placed(name); p != missing {
			return p
		}
		return byDistribution(c.Image, name, packages)
	}
	return g, nil
}

// onRoot returns g for an unpacked root with placed files.
func (g ground) onRoot(root string, placed func(name string) presence) ground {
	g.has = func(name string) presence {
		if p := placed(name); p != missing {
			return p
		}
		at, err := image.Inside(root, name)
		if err == nil {
			_, err = os.Lstat(at)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return missing
		case err != nil:
			return unknown
		}
		return there
	}
	folders := slices.Concat(libraryFolders(g.arch), configured(root))
	g.libraries = func(name string, first []string) presence {
		if strings.Contains(name, "/") {
			return unknown
		}
		return g.among(name, slices.Concat(first, folders))
	}
	return g
}

// among looks for a library in folders.
func (g ground) among(name string, folders []string) presence {
	for _, dir := range folders {
		if p := g.has(path.Join(dir, name)); path.IsAbs(dir) && p != missing {
			return p
		}
	}
	return missing
}

// hostGround is the ground of environments on the host's own root.
func (v viewer) hostGround(ctx context.Context, c plan.Contender) ground {
	g := ground{what: "host " + hostOf(c)}
	host, err := v.Way(hostOf(c))
	ask := func(argv ...string) string {
		return v.once(strings.Join(append([]string{hostOf(c)}, argv...), " "), func() string {
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
	g.arch = machines[strings.TrimSpace(ask("uname", "-m"))]
	g.has = func(name string) presence {
		if p := v.inPlaced(c, execution.File{Path: name}); p != missing {
			return p
		}
		return v.onHost(ctx, c, execution.File{Path: name}, name)
	}
	cached := ask("/sbin/ldconfig", "-p")
	if cached == "" {
		return g
	}
	g.libraries = func(name string, first []string) presence {
		if strings.Contains(name, "/") || strings.Contains(cached, "\t"+name+" (") {
			return there
		}
		return g.among(name, slices.Concat(first, libraryFolders(g.arch)))
	}
	return g
}

// machines are the names that uname -m has for a GOARCH.
var machines = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64", "s390x": "s390x",
	"ppc64le": "ppc64le"}

// triplets are the names of Debian's folders for the libraries of a GOARCH.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu",
	"riscv64": "riscv64-linux-gnu", "s390x": "s390x-linux-gnu", "ppc64le": "powerpc64le-linux-gnu"}

// libraryFolders are those in which a loader looks by itself.
func libraryFolders(arch string) []string {
	out := []string{"/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib", "/lib/i386-linux-gnu",
		"/usr/lib/i386-linux-gnu", "/lib32", "/usr/lib32"}
	if t := triplets[arch]; t != "" {
		out = append(out, "/lib/"+t, "/usr/lib/"+t, "/usr/local/lib/"+t)
	}
	return out
}

// configured are the folders that ld.so.conf of a root names.
func configured(root string) (out []string) {
	files := []string{"/etc/ld.so.conf"}
	if dir, err := image.Inside(root, "/etc/ld.so.conf.d"); err == nil {
		names, _ := filepath.Glob(filepath.Join(dir, "*.conf"))
		for _, name := range names {
			files = append(files, "/etc/ld.so.conf.d/"+filepath.Base(name))
		}
	}
	for _, file := range files {
		at, err := image.Inside(root, file)
		if err != nil {
			continue
		}
		text, err := os.ReadFile(at)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); path.IsAbs(line) {
				out = append(out, line)
			}
		}
	}
	return out
}

// byDistribution tells whether the images of a distribution with these packages have a
// loader.
func byDistribution(ref, name string, packages []string) presence {
	ref, _, _ = strings.Cut(path.Base(ref), ":")
	glibc := name == map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2",
		"arm64": "/lib/ld-linux-aarch64.so.1"}[runtime.GOARCH]
	musl := strings.HasPrefix(path.Base(name), "ld-musl")
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(packages, n) })
	}
	switch {
	case (ref == "debian" || ref == "ubuntu") && glibc, ref == "alpine" && musl:
		return there
	case (ref == "debian" || ref == "ubuntu") && musl && !has("musl"),
		ref == "alpine" && glibc && !has("gcompat", "libc6-compat"):
		return missing
	}
	return unknown
}
