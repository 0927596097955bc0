package session

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/lab/store"
	"bakeoff/provision/driver"
)

// relative is what a run that continues must know of files that options of drivers name, such
// as the manifest of a guest.
type relative struct {
	Folder string            `json:"folder"` // of the lab file, absolute
	SHA256 map[string]string `json:"sha256"` // by the name in the lab file
}

// create creates the run folder, with everything that a run that continues must know.
func (s *Session) create() (err error) {
	var r relative
	if r.Folder, err = filepath.Abs(s.sources); err != nil {
		return err
	}
	if r.SHA256, err = s.digests(r.Folder); err != nil {
		return err
	}
	var more []store.Text
	if len(r.SHA256) > 0 {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		more = append(more, store.Text{Name: store.RelativeFile, Data: text})
	}
	s.run, err = store.Create(s.Dir, time.Now(), s.lab, s.text, more...)
	return err
}

// recallRelative reads what create wrote, and refuses a file that has changed since.
func (s *Session) recallRelative() error {
	text, err := s.run.Relative()
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil {
		err = fault.Wrap(fault.Invalid, store.RelativeFile, json.Unmarshal(text, &s.named))
	}
	if err != nil {
		return err
	}
	now, err := s.digests(s.named.Folder)
	if err != nil {
		return err
	}
	for name, sum := range now {
		if s.named.SHA256[name] != sum {
			return fault.WithFix(fault.New(fault.Invalid, "%s changed since this run started; the run cannot be resumed",
				within(s.named.Folder, name)), "restore the original file, or start a new run")
		}
	}
	return nil
}

// digests are those of the files that the plan's contenders name.
func (s *Session) digests(folder string) (out map[string]string, err error) {
	out = map[string]string{}
	for _, c := range s.Plan.Contenders {
		d, ok := driver.Named(s.Drivers, c.Driver).(driver.Relative)
		if !ok {
			continue
		}
		for _, name := range d.RelativeFiles(c.Options) {
			if out[name], err = digestOf(within(folder, name)); err != nil {
				return nil, fault.WithFix(fault.Wrap(fault.Invalid, c.Name, err), "restore the file, or start a new run")
			}
		}
	}
	return out, nil
}

// digestOf is the SHA-256 of a regular file, in hexadecimal. The plan of a stranger may name
// something else, of which reading may not end.
func digestOf(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", file)
	}
	return hexsum.File(file)
}

func within(folder, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(folder, name)
}
