package image

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// misnamed refuses a root that holds an image in another form: what docker save wrote, or
// an OCI image layout. Its programs are in layers, and an environment would have none of
// them. ref is rootfs: and the path that has the root.
func misnamed(dir, ref string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	path := strings.TrimPrefix(ref, string(reference.Rootfs)+":")
	info, err := os.Stat(path)
	folder := err == nil && info.IsDir()
	switch {
	case isSaved(root):
		fix := "write docker-archive:" + path
		if folder {
			fix = "write docker-archive: and the tar file from which it was unpacked"
		}
		return fault.WithFix(fault.New(fault.Invalid,
			"it holds what docker save or podman save wrote, and not a root file system"), fix)
	case isFile(root, "oci-layout") && isFile(root, "index.json"):
		fix := "write oci-archive:" + path
		if folder {
			fix = "write oci:" + path
		}
		return fault.WithFix(fault.New(fault.Invalid, "it holds an OCI image layout, and not a root file system"), fix)
	}
	return nil
}

// isSaved tells whether a root has the list of docker save. Other programs have files of
// this name, too.
func isSaved(root *os.Root) bool {
	if info, err := root.Lstat("manifest.json"); err != nil || !info.Mode().IsRegular() ||
		info.Size() > layout.MaxDocument {
		return false
	}
	b, err := root.ReadFile("manifest.json")
	var all []struct {
		Config string
		Layers []string
	}
	return errors.Join(err, json.Unmarshal(b, &all)) == nil && len(all) > 0 &&
		all[0].Config != "" && len(all[0].Layers) > 0
}

func isFile(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.Mode()&fs.ModeType == 0
}
