package spec

import (
	paths "path"
	"strings"

	"bakeoff/base/lazy"
)

// mounted are the folders of the installing system where a recipe mounts the new one: it hides what is below them.
var mounted = map[string][]string{"void-zfs": {"/mnt"}, "debian-zfs": {"/mnt"},
	"netbsd-zfs": {"/altroot", "/mnt/boot", "/mnt/efi"}}

// Hidden returns the folder at which a recipe mounts the new system, if a file of the installing system is there or
// below it, and "" otherwise.
func Hidden(recipe, file string) string {
	for _, folder := range mounted[recipe] {
		if file = paths.Clean(file); file == folder || strings.HasPrefix(file, folder+"/") {
			return folder
		}
	}
	return ""
}

// file reports the path of a file or a folder of the installing system that is missing, does not match, or would be
// hidden while the plan still needs it.
func (c checker) file(s *Spec, value string, shape *lazy.Regexp, fix string, keys ...string) {
	c.want(value, shape, fix, keys...)
	if folder := Hidden(s.Recipe, value); folder != "" && shape.MatchString(value) {
		c.Add(c.at(keys), "put it into another folder: mount its disk at /media, or copy it to /root",
			"%s is below %s, where the new system is mounted", strings.Join(keys, "."), folder)
	}
}
