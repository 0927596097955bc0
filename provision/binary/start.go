package binary

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/provision/image"
)

// Presence is what is known of a file in an environment that may not exist yet.
type Presence int

// The states of a file.
const (
	Unknown Presence = iota
	Present
	Missing
)

// Environment is what is known of the place in which a program starts.
type Environment struct {
	Name string // image debian:bookworm, or host local
	Arch string // GOARCH; "" is unknown
	// Has reports whether a path exists.
	Has func(name string) Presence
	// Libraries reports whether a library exists that a program looks for in the folders
	// first, and then where its loader looks; nil: unknown.
	Libraries func(name string, first []string) Presence
}

// static is how a program is built that needs nothing of its environment.
const static = "build it statically (Go: CGO_ENABLED=0, C: -static)"

// CheckStart returns an error of kind fault.Invalid if p cannot start in e. from is the
// name of its file for messages, to its path in e.
func (e Environment) CheckStart(p Program, from, to string) error {
	switch {
	case p.Script:
		if e.Has(p.Interpreter) == Missing {
			return fault.WithFix(fault.New(fault.Invalid, "the script %s needs the interpreter %s, which %s does "+
				"not have", from, p.Interpreter,
				e.Name), "bring the interpreter, too, or name another one in the first line")
		}
		return nil
	case p.System == "":
		return nil
	case p.System != "linux":
		return fault.WithFix(fault.New(fault.Invalid, "%s is a program for %s, but %s runs Linux", from, p.System, e.Name),
			"build it for Linux, in Go with GOOS=linux")
	case e.Arch != "" && p.Arch != e.Arch && !(p.Arch == "386" && e.Arch == "amd64"):
		other := cmp.Or(p.Arch, "another processor")
		return fault.WithFix(fault.New(fault.Invalid, "%s is a program for %s, but the architecture of %s is %s",
			from, other, e.Name, e.Arch),
			"build it for "+e.Arch+", in Go with GOARCH="+e.Arch)
	case p.Interpreter == "":
		return nil
	case e.Has(p.Interpreter) == Missing:
		library, images := "glibc", "debian:bookworm"
		if strings.Contains(p.Interpreter, "ld-musl") {
			library, images = "musl", "alpine"
		}
		return fault.WithFix(fault.New(fault.Invalid, "%s needs the loader %s (%s), which %s does not have", from,
			p.Interpreter, library, e.Name), static+", or use an image with "+library+", such as "+images)
	case e.Libraries == nil:
		return nil
	}
	first := lists.Map(p.Search, strings.NewReplacer("$ORIGIN", path.Dir(to), "${ORIGIN}", path.Dir(to)).Replace)
	for _, name := range p.Needed {
		if e.Libraries(name, first) == Missing {
			return fault.WithFix(fault.New(fault.Invalid, "%s needs the shared library %s, which %s does not have", from, name,
				e.Name), static+", write the package that has it into packages, or place the library, too, in a "+
				"folder that the program searches (-Wl,-rpath)")
		}
	}
	return nil
}

// WithRoot returns e for an unpacked root, in which placed files are as well.
func (e Environment) WithRoot(root string, placed func(name string) Presence) Environment {
	e.Has = func(name string) Presence {
		if p := placed(name); p != Missing {
			return p
		}
		at, err := image.Inside(root, name)
		if err == nil {
			_, err = os.Lstat(at)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Missing
		case err != nil:
			return Unknown
		}
		return Present
	}
	folders := slices.Concat(libraryFolders(e.Arch), configuredFolders(root))
	e.Libraries = func(name string, first []string) Presence {
		if strings.Contains(name, "/") {
			return Unknown
		}
		return e.findLibrary(name, slices.Concat(first, folders))
	}
	return e
}

// WithLibraryCache returns e for a running system; cache is the output of ldconfig -p, ""
// if there is none.
func (e Environment) WithLibraryCache(cache string) Environment {
	if cache == "" {
		return e
	}
	e.Libraries = func(name string, first []string) Presence {
		if strings.Contains(name, "/") || strings.Contains(cache, "\t"+name+" (") {
			return Present
		}
		return e.findLibrary(name, slices.Concat(first, libraryFolders(e.Arch)))
	}
	return e
}

// findLibrary looks for a library in folders.
func (e Environment) findLibrary(name string, folders []string) Presence {
	for _, dir := range folders {
		if p := e.Has(path.Join(dir, name)); path.IsAbs(dir) && p != Missing {
			return p
		}
	}
	return Missing
}

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

// configuredFolders are those that ld.so.conf of a root names.
func configuredFolders(root string) (out []string) {
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

// LoaderOf reports whether images of a distribution with these packages have a loader,
// before they are built.
func LoaderOf(ref, name string, packages []string) Presence {
	ref, _, _ = strings.Cut(path.Base(ref), ":")
	glibc := name == map[string]string{"amd64": "/lib64/ld-linux-x86-64.so.2",
		"arm64": "/lib/ld-linux-aarch64.so.1"}[runtime.GOARCH]
	musl := strings.HasPrefix(path.Base(name), "ld-musl")
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(packages, n) })
	}
	switch {
	case (ref == "debian" || ref == "ubuntu") && glibc, ref == "alpine" && musl:
		return Present
	case (ref == "debian" || ref == "ubuntu") && musl && !has("musl"),
		ref == "alpine" && glibc && !has("gcompat", "libc6-compat"):
		return Missing
	}
	return Unknown
}
