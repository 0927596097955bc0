//go:build !linux

package quota

import "errors"

// system is the kernel of this machine, where bakeoff uses no projects.
type system struct{}

func (system) state(string) (counts, enforces bool, _ error) {
	return false, false, errors.ErrUnsupported
}

func (system) project(string) (id uint32, inherited bool, _ error) {
	return 0, false, errors.ErrUnsupported
}

func (system) setProject(string, uint32) error { return errors.ErrUnsupported }

func (system) known(string, uint32) (bool, error) { return false, errors.ErrUnsupported }

func (system) limit(string, uint32, uint64) error { return errors.ErrUnsupported }
