package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/yamltree"
	"bakeoff/lab/env"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/provision/binary"
	"bakeoff/provision/image"
	"bakeoff/reach/conn"
)

// Absence is a file that a cell names and contenders do not have.
type Absence struct {
	execution.File
	Cell       string
	Contenders []string
	// Everywhere is true if no contender has it: the cell can only fail.
	Everywhere bool
	// Nowhere is true if no contender that names it has it.
	Nowhere bool
	// Similar is a program with a similar name that the first of the contenders has; ""
	// if it has none.
	Similar string
	// Built is true if the image of a contender without it is one that bakeoff builds.
	Built bool
	// Given are the images of contenders without it that bakeoff does not build.
	Given []string
	Fix   string
}

// what names the missing file.
func (a Absence) what() string {
	what := "file"
	switch {
	case a.Folder:
		what = "folder"
	case !path.IsAbs(a.Path):
		what = "program"
	}
	return fmt.Sprintf("%s: there is no %s %s", a.Param, what, a.Path)
}

// String names the missing file and the contenders without it.
func (a Absence) String() string {
	where := " in contender "
	if len(a.Contenders) > 1 {
		where = " in the contenders "
	}
	text := a.what() + where + strings.Join(a.Contenders, ", ")
	if a.Similar != "" {
		text += fmt.Sprintf(" (did you mean %q?)", a.Similar)
	}
	return text
}

// Error makes an Absence an error, so that a caller can find it in one.
func (a Absence) Error() string { return a.String() }

// What is known of a file in a contender's environments.
const (
	unknown = binary.Unknown
	there   = binary.Present
	missing = binary.Missing
)

// absentFiles looks for the files that cells name, in every contender that can run.
// If an image was not built yet, a host cannot be reached or the path is in a
// volume, the answer is unknown until the environment exists.
func (v inspector) absentFiles(ctx context.Context, able func(string) bool) (out []Absence) {
	for _, cell := range v.plan.Cells {
		found := v.absentFilesOf(ctx, cell, able)
		out = append(out, found...)
	}
	return out
}

// absentFilesOf looks for the files of one cell. Contenders with parameters of
// their own may need other files: a cell can only fail if every contender lacks
// the file that it needs first, or all lack the same file.
func (v inspector) absentFilesOf(ctx context.Context, cell plan.Cell, able func(string) bool) (out []Absence) {
	all, first := 0, 0 // contenders that can run, and those of them without their first file
	named := map[execution.File]int{}
	for _, c := range v.plan.Contenders {
		if !able(c.Name) || c.TwinOf != "" {
			continue
		}
		all++
		for i, f := range v.filesOf(cell, c) {
			named[f]++
			if v.presenceOf(ctx, c, f) != missing {
				continue
			}
			if i == 0 {
				first++
			}
			k := slices.IndexFunc(out, func(a Absence) bool { return a.File == f })
			if k < 0 {
				k = len(out)
				fix := "write " + f.Param + ": with a path that every contender has"
				if c.Params[cell.Name][f.Param] != "" {
					fix = "install it, or write params: {" + cell.Name + ": {" + f.Param + ": …}} with a path that the contender has"
				}
				out = append(out, Absence{File: f, Cell: cell.Name, Fix: fix, Similar: v.similarProgram(ctx, c, f)})
			}
			out[k].Contenders = append(out[k].Contenders, c.Name)
		}
	}
	for i, a := range out {
		out[i].Everywhere = len(a.Contenders) == all || first == all
		out[i].Nowhere = len(a.Contenders) == named[a.File]
	}
	return out
}

// uncertainFiles names the files of cells that may be absent from contenders whose images
// are not built yet, or are archives.
func (v inspector) uncertainFiles(ctx context.Context, able func(string) bool) (out []string) {
	for _, cell := range v.plan.Cells {
		var absent lists.Groups[string, string] // contenders by paths
		for _, c := range v.plan.Contenders {
			d := v.driver(c)
			if c.TwinOf != "" || !able(c.Name) || !d.Doc().Image || c.Image == "" || path.IsAbs(c.Image) ||
				v.rootOf(c) != "" {
				continue
			}
			for _, f := range v.filesOf(cell, c) {
				if v.presenceOf(ctx, c, f) == unknown {
					absent.Add(f.Path, c.Name)
				}
			}
		}
		for p, names := range absent.All() {
			out = append(out, fmt.Sprintf("cell %s needs %s, but plan cannot check whether %s will have it before the image "+
				"is prepared", cell.Name, p, strings.Join(names, ", ")))
		}
	}
	return out
}

// filesOf are those that a cell names in a contender. If the contender sets PATH,
// it is not known where its programs are.
func (v inspector) filesOf(cell plan.Cell, c plan.Contender) []execution.File {
	if finder, ok := execution.Named(v.Workloads, cell.Workload).(execution.Finder); ok && c.Env["PATH"] == "" {
		return finder.Files(c.CellOf(cell.Cell).Params)
	}
	return nil
}

// presenceOf tells whether a contender's environments will have f.
func (v inspector) presenceOf(ctx context.Context, c plan.Contender, f execution.File) binary.Presence {
	d := v.driver(c)
	if d == nil || c.System != "" {
		return unknown
	}
	for _, vol := range c.Volumes {
		if f.Path == vol.Path || strings.HasPrefix(f.Path, vol.Path+"/") {
			return unknown
		}
	}
	if p := v.presenceInPlaced(c, f); p != missing {
		return p
	}
	doc := d.Doc()
	switch {
	case onHostsRoot(doc, c.Contender):
		return v.presenceOnHost(ctx, c, f, f.Path)
	case !doc.Image || c.Image == "":
		return unknown
	case doc.Folder && path.IsAbs(c.Image):
		if !path.IsAbs(f.Path) {
			return unknown
		}
		return v.presenceOnHost(ctx, c, f, path.Join(c.Image, f.Path))
	}
	return presenceInRoot(v.rootOf(c), f)
}

// rootOf is the path of the unpacked root of a contender's image; "" before it was
// built.
func (v inspector) rootOf(c plan.Contender) string {
	packages, err := Packages(v.plan, v.Workloads, c.Contender)
	if err != nil {
		return "" // the plan was checked against another catalogue
	}
	return env.Root(v.Cache, v.driver(c).Doc(), env.OriginOf(c.Contender), packages, c.Options)
}

// presenceOnHost looks for at on the contender's host, once for all contenders there.
func (v inspector) presenceOnHost(ctx context.Context, c plan.Contender, f execution.File, at string) binary.Presence {
	answer := v.askOnce("file "+hostOf(c)+" "+at, func() string {
		host, err := v.Way(hostOf(c))
		if err != nil {
			return ""
		}
		have, err := v.hasFile(ctx, host, f, at)
		if err != nil {
			return ""
		}
		return fmt.Sprint(have)
	})
	return map[string]binary.Presence{"true": there, "false": missing}[answer]
}

func (v inspector) hasFile(ctx context.Context, host conn.Conn, f execution.File, at string) (bool, error) {
	if !path.IsAbs(at) {
		return Has(ctx, host, at)
	}
	test := "-e"
	if f.Folder {
		test = "-d"
	}
	exit, err := host.Exec(ctx, conn.Command("test", test, at))
	return exit.OK(), err
}

// similarProgram returns the program of a contender whose name is nearest to that of f.
func (v inspector) similarProgram(ctx context.Context, c plan.Contender, f execution.File) string {
	if strings.Contains(f.Path, "/") {
		return ""
	}
	var names []string
	if onHostsRoot(v.driver(c).Doc(), c.Contender) {
		names = strings.Fields(v.askOnce("programs "+hostOf(c), func() string {
			host, err := v.Way(hostOf(c))
			if err != nil {
				return ""
			}
			list, err := conn.Output(ctx, host, "sh", "-c", programPath+`IFS=:; for d in $PATH; do ls "$d" 2>/dev/null; done; :`)
			if err != nil {
				return "" // the suggestion is missing, and nothing else
			}
			return string(list)
		}))
	} else if dir := v.rootOf(c); dir != "" {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return ""
		}
		defer root.Close()
		for _, d := range programDirs(dir) {
			entries, err := fs.ReadDir(root.FS(), path.Clean(d))
			if err != nil {
				continue
			}
			for _, e := range entries {
				names = append(names, e.Name())
			}
		}
	}
	return yamltree.Nearest(f.Path, names)
}

// programDirs are where programs of an image are looked for: its configuration may say it.
func programDirs(root string) []string {
	if config := image.ConfigOf(root); config != nil {
		for _, e := range config.Env {
			if list, ok := strings.CutPrefix(e, "PATH="); ok {
				return lists.Map(strings.Split(list, ":"), func(dir string) string { return strings.TrimPrefix(dir, "/") })
			}
		}
	}
	return []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}
}

// presenceInRoot looks for f in an unpacked root; "" is one that was not built yet.
func presenceInRoot(dir string, f execution.File) binary.Presence {
	if dir == "" {
		return unknown
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return unknown
	}
	defer root.Close()
	if path.IsAbs(f.Path) {
		return presenceInTree(root, strings.TrimPrefix(path.Clean(f.Path), "/"), f.Folder)
	}
	found := missing
	for _, d := range programDirs(dir) {
		switch presenceInTree(root, d+"/"+f.Path, false) {
		case there:
			return there
		case unknown:
			found = unknown
		}
	}
	return found
}

// presenceInTree looks for one name. What a link to an absolute path leads to is not
// looked at from outside of the root.
func presenceInTree(root *os.Root, name string, folder bool) binary.Presence {
	if name == "" {
		return there
	}
	if at, err := root.Lstat(name); err == nil && at.Mode()&fs.ModeSymlink != 0 {
		return unknown
	}
	at, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && folder && !at.IsDir():
		return missing
	case err != nil:
		return unknown
	}
	return there
}
