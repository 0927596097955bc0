// Package service reads definitions of services: a folder with service.yaml or a
// Containerfile, which says what is in an image and what starts in it. Both become one
// Definition, which package build makes images from.
//
// Parse is pure. What is wrong with a definition is reported with its file, line and
// column, and what to write instead.
package service

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/unit"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/reference"
)

// The files of a definition. A folder has one of them.
const (
	YAMLFile      = "service.yaml"
	Containerfile = "Containerfile"
	Dockerfile    = "Dockerfile"
)

// Scratch is the base without files.
const Scratch = "scratch"

// Unpacked precedes the base whose packages are unpacked and not installed:
// unpacked:debian:bookworm. No script of a package runs, and nothing else is in it.
const Unpacked = "unpacked:"

// Definition is a service.
type Definition struct {
	Name string // of the folder, or what the definition says
	// Base is an image as lab files name it, Scratch, or Unpacked and an image of
	// packages.
	Base string
	// Packages are installed in the base, which bakeoff then builds from packages.
	Packages []string
	Users    []User
	// Steps are executed in this order.
	Steps []Step
	// Remove are paths that are removed after the last step.
	Remove []string

	Entrypoint, Cmd []string
	Env             []string // NAME=VALUE, in the order of the definition
	User, Dir       string   // of the program that starts
	Ports           []string // 80/tcp
	Labels          map[string]string
	// Size is that of the root file system on the disk; 0 is what its files need and
	// 64 MiB more.
	Size unit.Bytes
}

// Program is the command line that starts.
func (d *Definition) Program() []string {
	return append(d.Entrypoint[:len(d.Entrypoint):len(d.Entrypoint)], d.Cmd...)
}

// User is a user and a group of the same name and number.
type User struct {
	Name        string
	ID          int
	Home, Shell string
}

// Step is one step of a build: a copy, a folder or a program.
type Step struct {
	Where  string // service.yaml:12
	Text   string // as people write it
	Copy   *Copy
	Folder string // an absolute path that exists after the step; "" is another step
	Run    *Run
}

// Copy places a file or folder in the root.
type Copy struct {
	// From is a path in the folder of the definition, relative and without "..", or
	// Material and a name. Text is the content if From is "".
	From, Text string
	To         string      // absolute
	Into       bool        // To is a folder, in which a file gets its own name
	Mode       fs.FileMode // of a file; 0 keeps its own, or is 0644 for a text
	Owner      string      // USER[:GROUP]; "" is root
}

// Material precedes the names of folders that bakeoff brings: bakeoff:example-site.
const Material = "bakeoff:"

// Run executes a program in the root.
type Run struct {
	Argv      []string
	Env       []string // NAME=VALUE
	User, Dir string   // "" is root, and /
	Network   bool
}

// shell is the program for text that people write as a line.
func shell(text string) []string { return []string{"/bin/sh", "-ec", text} }

var (
	nameForm = lazy.Compile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	packages = lazy.Compile(`^[a-z0-9][a-z0-9+.-]{1,80}$`)
	userForm = lazy.Compile(`^[a-z_][a-z0-9_-]{0,31}$`)
	ownForm  = lazy.Compile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$`)
	envName  = lazy.Compile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	portForm = lazy.Compile(`^([0-9]{1,5})(/(tcp|udp))?$`)
)

// maxSteps bounds the steps of a definition.
const maxSteps = 1000

// Load reads the definition in a folder. arguments are values for ARG of a
// Containerfile, by name.
func Load(dir string, arguments map[string]string) (*Definition, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "there is no folder %s", dir)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "service", err)
	}
	defer root.Close()
	var found []string
	for _, name := range []string{YAMLFile, Containerfile, Dockerfile} {
		if _, err := root.Lstat(name); err == nil {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s is not the definition of a service: it has no %s, %s or %s",
			dir, YAMLFile, Containerfile, Dockerfile), "name a folder with one of these files")
	case 1:
	default:
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s has %s, and bakeoff reads only one such file", dir,
			strings.Join(found, " and ")), "keep one of them in the folder")
	}
	f, err := root.Open(found[0])
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "service", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, yamltree.MaxSource+1))
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "service", err)
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.Op("service", err)
	}
	file := filepath.Join(dir, found[0])
	if found[0] == YAMLFile {
		if len(arguments) > 0 {
			return nil, fault.New(fault.Invalid, "%s has no ARG; --arg is for a Containerfile", file)
		}
		return ParseYAML(file, filepath.Base(full), src)
	}
	for _, name := range []string{".dockerignore", ".containerignore"} {
		if _, err := root.Lstat(name); err == nil {
			return nil, fault.WithFix(fault.New(fault.Unsupported, "bakeoff does not read %s", filepath.Join(dir, name)),
				"remove it, and name with COPY only what the image gets")
		}
	}
	return ParseContainerfile(file, filepath.Base(full), src, arguments)
}

// checker checks the parts of a definition for both formats.
type checker struct{ *yamltree.Reporter }

// Add reports a problem. What is missing has no place, and belongs to the first line.
func (c checker) Add(at yamltree.Position, fix, format string, args ...any) {
	if at.Line == 0 {
		at = yamltree.Position{Line: 1, Column: 1}
	}
	c.Reporter.Add(at, fix, format, args...)
}

func (c checker) name(at yamltree.Position, name string) {
	if !nameForm.MatchString(name) {
		c.Add(at, "use lower-case letters, digits and -, at most 40", "%s is not the name of a service", yamltree.Show(name))
	}
}

func (c checker) base(at yamltree.Position, d *Definition) {
	text, unpacked := strings.CutPrefix(d.Base, Unpacked)
	if d.Base == Scratch && len(d.Packages) == 0 {
		return
	}
	ref, err := reference.Parse(text)
	switch {
	case d.Base == Scratch:
		c.Add(at, "write unpacked:debian:bookworm for packages that are not installed", "scratch has no packages")
	case d.Base == "":
		c.Add(at, "write base: debian:bookworm or another image", "the service has no base")
	case err != nil:
		c.Add(at, fault.Fix(err), "%v", err)
	case ref.Kind == reference.Disk:
		c.Add(at, "write rootfs: with its root file system", "a disk cannot be the base of a service")
	case (unpacked || len(d.Packages) > 0) && ref.Kind != reference.Packages:
		c.Add(at, "write debian:SUITE, or install them in a step of the build with network",
			"bakeoff installs no packages in %s", yamltree.Show(text))
	case unpacked && len(d.Packages) == 0:
		c.Add(at, "add packages, or write scratch", "the base has no packages to unpack")
	}
}

func (c checker) pkg(at yamltree.Position, name string) {
	if !packages.MatchString(name) {
		c.Add(at, "write the name as the distribution has it", "%s is not the name of a package", yamltree.Show(name))
	}
}

// absolute checks a path in the root.
func (c checker) absolute(at yamltree.Position, what, p string) string {
	if !path.IsAbs(p) || strings.ContainsAny(p, "\x00\n") || path.Clean(p) == "/" {
		c.Add(at, "write a path from / on, such as /etc/motd", "%s is %s", what, yamltree.Show(p))
		return p
	}
	return path.Clean(p)
}

// local checks a path in the folder of the definition.
func (c checker) local(at yamltree.Position, p string) string {
	if strings.HasPrefix(p, Material) {
		return p
	}
	if strings.ContainsAny(p, "\x00\n") || !filepath.IsLocal(p) {
		c.Add(at, "write a path in the folder of the service, without ..", "from is %s", yamltree.Show(p))
	}
	return path.Clean(p)
}

func (c checker) owner(at yamltree.Position, what, text string) {
	if text != "" && !ownForm.MatchString(text) {
		c.Add(at, "write USER or USER:GROUP, as names or numbers", "%s is %s", what, yamltree.Show(text))
	}
}

func (c checker) variable(at yamltree.Position, name, value string) {
	if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
		c.Add(at, "use letters, digits and _", "%s is not the name of a variable", yamltree.Show(name))
	}
}

// port returns a port with its protocol.
func (c checker) port(at yamltree.Position, text string) string {
	m := portForm.FindStringSubmatch(text)
	if m == nil || len(m[1]) == 5 && m[1] > "65535" || strings.Trim(m[1], "0") == "" {
		c.Add(at, "write a number from 1 to 65535, such as 80 or 53/udp", "%s is not a port", yamltree.Show(text))
		return text
	}
	if m[3] == "" {
		return m[1] + "/tcp"
	}
	return text
}

func (c checker) text(at yamltree.Position, what string, argv []string) {
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			c.Add(at, "remove it", "%s has a zero byte", what)
		}
	}
}
