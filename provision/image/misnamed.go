package image

import (
	"encoding/json"
	"io/fs"
	"os"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// forms are the other forms of an image that a root or an archive may have by mistake.
type forms struct {
	path          string // of the file or folder
	saved         bool   // what docker save writes
	layout, index bool   // the files of an OCI image layout
	about, rootfs bool   // the file and the folder of an image of LXD or Incus
}

// misnamed refuses a root that holds an image in another form: what docker save wrote, an OCI
// image layout, or an image of LXD. Its programs are in layers or in a folder, and an environment would have none of
// them. ref is rootfs: and the path that has the root.
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
	info, err := os.Stat(f.path)
	return f.otherFormError(err == nil && info.IsDir())
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
