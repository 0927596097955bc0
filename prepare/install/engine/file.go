package engine

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/prepare/install/spec"
	"bakeoff/reach/conn"
)

// ownFiles refuses files of the target that the installation would hide or remove.
func (e *Engine) ownFiles(ctx context.Context) error {
	if err := e.visible(ctx); err != nil {
		return err
	}
	return e.ownDownloads(ctx)
}

// visible refuses files that are behind a symbolic link, and below the folder where the new system is mounted. A
// specification that names that folder is refused before.
func (e *Engine) visible(ctx context.Context) error {
	if len(e.states) > 0 {
		return nil
	}
	argv := []string{"readlink", "-f"}
	for _, s := range e.Plan.Steps {
		if s.Destroys != "" {
			break
		}
		for _, word := range append(slices.Clone(s.Argv), s.Dir) {
			if strings.HasPrefix(word, "/") && !slices.Contains(argv, word) {
				argv = append(argv, word)
			}
		}
	}
	files, err := e.lines(ctx, argv...)
	for _, file := range files {
		if folder := spec.Hidden(e.Plan.Recipe, file); folder != "" {
			return fault.WithFix(fault.New(fault.Invalid, "a symbolic link of the target leads to %s, below %s, where the new "+
				"system is mounted", safetext.Line(file), folder), "put the file into another folder, and make another plan")
		}
	}
	return err
}

// downloaded are what the steps of the download make in their folder.
var downloaded = []string{"apt-settle", "apt.conf", "base.tar", "cache", "etc", "module-fits", "tmp", "var"}

// ownDownloads refuses a folder of downloads that has other files than those of an installation: the plan removes the
// whole folder first.
func (e *Engine) ownDownloads(ctx context.Context) error {
	s := e.Plan.Step("download-clear")
	if s == nil || e.states[s.ID] == eventDone {
		return nil
	}
	folder := s.Argv[len(s.Argv)-1]
	names, err := e.lines(ctx, "find", folder, "-mindepth", "1", "-maxdepth", "1", "-printf", `%f\n`)
	for _, name := range names {
		if !slices.Contains(downloaded, name) {
			return fault.WithFix(fault.New(fault.Invalid, "the installation would remove %s, which has files that bakeoff did "+
				"not make, such as %s", folder, safetext.Line(name)), "move these files, or make a plan with another download_dir")
		}
	}
	return err
}

// lines are those that a command prints. That it fails for some of its arguments is no error.
func (e *Engine) lines(ctx context.Context, argv ...string) ([]string, error) {
	var out bytes.Buffer
	cmd := conn.Command(argv...)
	cmd.Stdout = &limited{&out}
	_, err := e.Conn.Exec(ctx, cmd)
	return strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' }), err
}
