package manifest

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/param"
	"bakeoff/base/yamltree"
)

// File is a file or folder of the controller that environments have.
type File struct {
	From string `json:"from"`           // relative to the folder of the lab file
	To   string `json:"to"`             // absolute, in the environment
	Mode string `json:"mode,omitempty"` // permission bits of a file, as in 0755; "" keeps its own
	// Size is that of all contents in bytes, Digest sha256:… over paths, permission
	// bits and contents. A lab file does not know them: see Lab.Packed.
	Size   int64  `json:"size_bytes"`
	Digest string `json:"digest"`
	// Where is the "file:line:column" of the lab file, or the flag, that names it.
	Where string `json:"-"`
}

// FileKey is what decides what is packed for a File.
type FileKey struct{ From, Mode string }

// Packed is what is known of the contents of a File.
type Packed struct {
	Digest string
	Size   int64
}

// Key returns what decides what is packed for f.
func (f File) Key() FileKey { return FileKey{f.From, f.Mode} }

// Perm returns the permission bits of f; 0 keeps those of the file.
func (f File) Perm() fs.FileMode {
	bits, _ := strconv.ParseUint(f.Mode, 8, 12) // checked by Parse
	return fs.FileMode(bits).Perm()
}

// FilesOf returns the files that the environments of a contender have, in the order of
// their paths: those of the lab, of its cells and of the contender, with what is known
// of their contents.
func (l *Lab) FilesOf(c Contender) []File {
	all := map[string]File{}
	add := func(files []File) {
		for _, f := range files {
			if known, ok := l.Packed[f.Key()]; ok {
				f.Digest, f.Size = known.Digest, known.Size
			}
			all[f.To] = f
		}
	}
	add(l.Files)
	for _, cell := range l.Cells {
		add(cell.Files)
	}
	add(c.Files)
	var out []File
	for _, f := range all {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.To, b.To) })
	return out
}

func filesField(where string) field {
	return field{name: "files", doc: "Files and folders of this machine that bakeoff places in " + where + ".",
		shape: listOf(fieldsOf(
			field{name: "from", doc: "File or folder, relative to the folder of the lab file.", shape: one(param.Text),
				required: true},
			field{name: "to", doc: "Path of the file or folder in the environment. bakeoff creates missing folders " +
				"above this path.",
				shape: text(pathPattern, "write an absolute path like /opt/server"), required: true},
			field{name: "mode", doc: "Permissions of a file, as in 0755. Without this key, the file keeps its " +
				"permissions. The files in a folder always keep their permissions.", shape: one(param.Text)},
		)).eg("[{from: ./build/server, to: /opt/server, mode: 0755}]")}
}

var modeForm = lazy.Compile(`^0?[0-7]{3}$`)

// hidden are folders in which environments mount something, systemFolders those whose
// place nothing can take.
var (
	hidden        = []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/.bakeoff"}
	systemFolders = []string{"/", "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/mnt", "/opt",
		"/root", "/sbin", "/srv", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin", "/usr/share",
		"/var", "/var/lib"}
)

// files reads the files of the lab, of cells and of contenders, and reports those that
// an environment cannot have together.
func (r *resolver) files(l *Lab, root *yamltree.Node) {
	l.Files = r.filesIn(root, "the lab")
	shared := slices.Clone(l.Files)
	cells := mappings(r.sub(root, "cells", yamltree.Sequence))
	for i, n := range cells {
		if i < len(l.Cells) {
			l.Cells[i].Files = r.filesIn(n, "the cell")
			r.apart(n, shared, l.Cells[i].Files, false)
			shared = append(shared, l.Cells[i].Files...)
		}
	}
	for i, n := range mappings(r.sub(root, "contenders", yamltree.Sequence)) {
		if i >= len(l.Contenders) {
			break
		}
		c := &l.Contenders[i]
		c.Files = r.filesIn(n, "the contender")
		r.apart(n, shared, c.Files, true)
		if len(shared)+len(c.Files) > 0 {
			r.takesFiles(n, *c)
			r.besideVolumes(n, *c, slices.Concat(shared, c.Files))
		}
	}
}

// filesIn reads the key files of n.
func (r *resolver) filesIn(n *yamltree.Node, whose string) (out []File) {
	for _, item := range mappings(r.sub(n, "files", yamltree.Sequence)) {
		f := File{From: r.text(item, "from"), To: r.text(item, "to"),
			Where: fmt.Sprintf("%s:%d:%d", filepath.Base(r.File), item.Line, item.Column)}
		if at := item.Get("mode"); at != nil && !r.bad[at] {
			if !modeForm.MatchString(at.String()) {
				r.fail(at, "write permissions like 0755", "mode is %s", yamltree.Show(at.String()))
			} else {
				text := at.String()
				f.Mode = "0" + text[len(text)-3:]
			}
		}
		to, from := item.Get("to"), item.Get("from")
		switch {
		case from != nil && !r.bad[from] && f.From == "":
			r.fail(from, "write the path of a file or folder", "from is empty")
		case to == nil || r.bad[to]:
		case path.Clean(f.To) != f.To:
			r.fail(to, "write "+path.Clean(f.To), "the path %s is not in its shortest form", yamltree.Show(f.To))
		case slices.Contains(systemFolders, f.To):
			r.fail(to, "write the path that the file itself has there: "+path.Join(f.To, path.Base(f.From)),
				"%s is a folder of the system", f.To)
		case slices.ContainsFunc(hidden, func(h string) bool { return inside(f.To, h) }):
			r.fail(to, "write another path like /opt/"+path.Base(f.From), "environments mount something over %s", f.To)
		}
		for _, other := range out {
			r.overlap(item, f, other, false)
		}
		if len(out) == maxFiles {
			r.fail(item, "name a folder that contains them", "%s has more than %d files", whose, maxFiles)
			break
		}
		out = append(out, f)
	}
	return out
}

// maxFiles bounds the entries of one list. A folder is one entry.
const maxFiles = 256

// apart reports files that are in the place of others.
func (r *resolver) apart(n *yamltree.Node, before, files []File, replaces bool) {
	items := mappings(r.sub(n, "files", yamltree.Sequence))
	for i, f := range files {
		for _, other := range before {
			r.overlap(items[i], f, other, replaces)
		}
	}
}

// overlap reports a file that is at, above or below the path of another.
func (r *resolver) overlap(at *yamltree.Node, f, other File, replaces bool) {
	switch {
	case f.To == "" || other.To == "" || f.To == other.To && replaces:
	case f.To == other.To:
		r.fail(at, "choose another path", "%s is already the place of %s (%s)", f.To, other.From, other.Where)
	case inside(f.To, other.To):
		r.fail(at, "choose another path, or put it into "+other.From, "%s is below %s, the place of %s (%s)", f.To,
			other.To, other.From, other.Where)
	case inside(other.To, f.To):
		r.fail(at, "choose another path, or put it into "+f.From, "%s is above %s, the place of %s (%s)", f.To,
			other.To, other.From, other.Where)
	}
}

// takesFiles reports a contender in whose environments nothing can be placed.
func (r *resolver) takesFiles(n *yamltree.Node, c Contender) {
	i := slices.IndexFunc(r.cat.Drivers, func(d DriverEntry) bool { return d.Name == c.Driver })
	if i < 0 {
		return // reported
	}
	const fix = "put the files into its root, and remove them from the lab file"
	d := r.cat.Drivers[i]
	switch {
	case d.Files:
	case c.Options.Match(d.OwnRoot) || !d.Image:
		r.Add(n.Position, fix, "bakeoff cannot place files in environments of driver %s that have their own root", d.Name)
	case strings.HasPrefix(c.Image, "disk:"):
		r.Add(n.Position, "write the files to the disk, or name its root file system with rootfs:",
			"bakeoff cannot place files in the image %s", yamltree.Show(c.Image))
	case path.IsAbs(c.Image):
		r.Add(n.Position, fix, "bakeoff cannot place files in %s, a folder of the host", c.Image)
	}
}

// besideVolumes reports files that a volume hides, and volumes in placed folders.
func (r *resolver) besideVolumes(n *yamltree.Node, c Contender, all []File) {
	for _, f := range all {
		for _, v := range c.Volumes {
			if f.To != "" && (inside(f.To, v.Path) || inside(v.Path, f.To)) {
				r.Add(n.Position, "choose another path for one of them",
					"the volume %s of contender %s and the file at %s (%s) are in the same place", v.Path,
					yamltree.Show(c.Name), f.To, f.Where)
			}
		}
	}
}
