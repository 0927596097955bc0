package image

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// forms are the other forms of an image that a root or an archive may have by mistake.
type forms struct {
	path          string // of the file or folder
	saved         bool   // what docker save writes
	layout, index bool   // the files of an OCI image layout
	about, rootfs bool   // the file and the folder of an image of LXD or Incus

	top    map[string]bool // the entries at the top: true for folders
	second map[string]bool // the folders of systems in a folder at the top
}

// baseFolders are folders at the top of a root.
var baseFolders = []string{"bin", "boot", "etc", "home", "lib", "lib64", "mnt", "opt", "root", "run", "sbin", "srv",
	"usr", "var"}

// systemFolders are the folders of a system by which its root is known.
var systemFolders = []string{"etc", "usr", "bin"}

// noteName notes an entry with a clean path, relative to the root.
func (f *forms) noteName(name string, isFolder bool) {
	if name == "" {
		return
	}
	top, rest, below := strings.Cut(name, "/")
	if f.top == nil {
		f.top, f.second = map[string]bool{}, map[string]bool{}
	}
	f.top[top] = f.top[top] || below || isFolder
	if second, _, _ := strings.Cut(rest, "/"); slices.Contains(systemFolders, second) {
		f.second[second] = true
	}
}

// only is the only folder at the top, or the only file without a folder; "" if there are several.
func (f forms) only(folder bool) string {
	found := ""
	for name, isFolder := range f.top {
		switch {
		case isFolder == folder && found == "":
			found = name
		case isFolder || !folder:
			return ""
		}
	}
	return found
}

// appliance is the description of a virtual appliance beside its disks; "" if there is none, or a folder.
func (f forms) appliance() string {
	found := ""
	for name, isFolder := range f.top {
		switch {
		case isFolder:
			return ""
		case path.Ext(name) == ".ovf":
			found = name
		}
	}
	return found
}

// misnamed refuses a root that holds an image in another form: what docker save wrote, an OCI
// image layout, an image of LXD, or a root in a folder or on a disk. An environment would have none of its programs
// in their places. ref is rootfs: and the path that has the root.
func misnamed(dir, ref string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f := forms{path: strings.TrimPrefix(ref, string(reference.Rootfs)+":"), saved: isSaved(root),
		layout: isFile(root, "oci-layout"), index: isFile(root, "index.json"), about: isFile(root, "metadata.yaml")}
	if info, err := root.Lstat("rootfs"); err == nil {
		f.rootfs = info.IsDir()
	}
	if err := f.noteFolder(root); err != nil {
		return err
	}
	info, err := os.Stat(f.path)
	return f.otherFormError(err == nil && info.IsDir())
}

// noteFolder notes the entries of a root, and of the only folder in it.
func (f *forms) noteFolder(root *os.Root) error {
	all, err := fs.ReadDir(root.FS(), ".")
	for _, e := range all {
		f.noteName(e.Name(), e.IsDir())
	}
	folder := f.only(true)
	if err != nil || folder == "" {
		return err
	}
	all, err = fs.ReadDir(root.FS(), folder)
	for _, e := range all {
		f.noteName(folder+"/"+e.Name(), e.IsDir())
	}
	return err
}

// otherFormError returns the error for another form than a root file system.
func (f forms) otherFormError(folder bool) error {
	switch {
	case f.saved:
		fix := "write docker-archive:" + f.path
		if folder {
			fix = "write docker-archive: and the tar file from which it was unpacked"
		}
		return fault.WithFix(fault.New(fault.Invalid,
			"the file contains the output of docker save or podman save, not a root file system"), fix)
	case f.layout && f.index:
		fix := "write oci-archive:" + f.path
		if folder {
			fix = "write oci:" + f.path
		}
		return fault.WithFix(fault.New(fault.Invalid, "the file contains an OCI image layout, not a root file system"), fix)
	case f.about && f.rootfs:
		return fault.WithFix(fault.New(fault.Invalid, "the file contains an image of LXD or Incus, whose root file system "+
			"is its folder rootfs"), "unpack it, and name the folder rootfs")
	}
	unpack := "unpack it; then "
	if folder {
		unpack = ""
	}
	const convert = "convert the disk (qemu-img convert -O raw FILE FILE.raw), and write disk:FILE.raw"
	dir, file := f.only(true), f.only(false)
	switch {
	// A folder such as /opt or /usr can have such folders, too.
	case dir != "" && f.second["etc"] && (f.second["usr"] || f.second["bin"]) && !slices.Contains(baseFolders, dir):
		return fault.WithFix(fault.New(fault.Invalid, "the file contains the root file system in its folder %s",
			yamltree.Show(dir)), unpack+"name that folder")
	case slices.Contains([]string{".raw", ".img", ".qcow2"}, path.Ext(file)):
		return fault.WithFix(fault.New(fault.Invalid, "the file contains %s, the disk of a machine, not a root file system",
			yamltree.Show(file)), unpack+"write disk: with that disk")
	case slices.Contains([]string{".vmdk", ".vdi", ".vhd", ".vhdx"}, path.Ext(file)):
		return fault.WithFix(fault.New(fault.Invalid, "the file contains %s, the disk of a machine, not a root file system",
			yamltree.Show(file)), unpack+convert)
	case f.appliance() != "":
		return fault.WithFix(fault.New(fault.Invalid, "the file contains %s and the disks of a virtual appliance, not a "+
			"root file system", yamltree.Show(f.appliance())), unpack+convert)
	}
	return nil
}

// isSaved tells whether a root has the list of docker save.
func isSaved(root *os.Root) bool {
	if info, err := root.Lstat("manifest.json"); err != nil || !info.Mode().IsRegular() ||
		info.Size() > layout.MaxDocument {
		return false
	}
	b, err := root.ReadFile("manifest.json")
	return err == nil && isList(b)
}

// isList tells whether a document is the list of docker save. Other programs have files of
// its name, too.
func isList(b []byte) bool {
	var all []struct {
		Config string
		Layers []string
	}
	return json.Unmarshal(b, &all) == nil && len(all) > 0 && all[0].Config != "" && len(all[0].Layers) > 0
}

func isFile(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode()&fs.ModeType == 0
}
