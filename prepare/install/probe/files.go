package probe

import (
	"archive/tar"
	"io"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/prepare/install/installed"
)

// findTests are arguments of find: small files and links, of /boot all files, and the folders of NetBSD's
// modules. 2048 blocks are 1 MiB.
var findTests = []string{"-maxdepth", "1", "(", "-type", "l", "-o", "-type", "f", "-size", "-2049", "-o", "-type", "f",
	"-path", "/boot/*", "-o", "-type", "d", "-path", "/stand/*/*", ")", "-print"}

func paths() []string {
	return lists.Map(installed.ConfigurationPaths(), func(p string) string { return "/" + p })
}

// configuration reads the files that lint reads; nil is unknown. modes has those of keys, whose
// content stays where it is.
func (m machine) configuration(modes map[string]string) map[string]installed.File {
	// find fails if a path is missing, and still prints the others.
	out := m.run(slices.Concat([]string{"find"}, paths(), findTests)...)
	if out == "" {
		return nil
	}
	all, wanted := map[string]installed.File{}, []string{}
	for line := range strings.Lines(out) {
		name := strings.TrimPrefix(strings.TrimSpace(line), "/")
		there, content := installed.Configured(name)
		if there {
			all[name] = installed.File{Withheld: true}
		}
		if content {
			wanted = append(wanted, name)
		}
	}
	for name := range modes {
		if name = strings.TrimPrefix(name, "/"); name != "boot" && !slices.Contains(wanted, name) {
			all[name] = installed.File{Withheld: true}
		}
	}
	slices.Sort(wanted)
	if len(wanted) == 0 {
		return all
	}
	text := m.run(slices.Concat([]string{"tar", "-C", "/", "-cf", "-", "--"}, wanted)...)
	for r := tar.NewReader(strings.NewReader(text)); ; {
		h, err := r.Next()
		if err != nil {
			return all // the end, or what tar did before it failed
		}
		name := strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "/")
		if _, ok := all[name]; !ok {
			continue
		}
		switch h.Typeflag {
		case tar.TypeSymlink:
			all[name] = installed.File{Link: h.Linkname}
		case tar.TypeReg:
			if data, err := io.ReadAll(r); err == nil {
				all[name] = installed.FileOf(name, data)
			}
		}
	}
}
