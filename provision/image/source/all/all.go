// Package all lists the kinds of image sources.
package all

import (
	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/source/alpine"
	"bakeoff/provision/image/source/freebsd"
	"bakeoff/provision/image/source/imgapi"
	"bakeoff/provision/image/source/netbsd"
	"bakeoff/provision/image/source/registry"
)

// All returns every kind, in the order of names.
func All() []source.Source {
	return []source.Source{
		alpine.Source{},
		freebsd.Source{},
		imgapi.Source{},
		netbsd.Source{},
		registry.Source{},
	}
}

// Get returns a kind by its name. Errors are of kind fault.Invalid.
func Get(kind string) (source.Source, error) {
	var kinds []string
	for _, s := range All() {
		if s.Doc().Kind == kind {
			return s, nil
		}
		kinds = append(kinds, s.Doc().Kind)
	}
	return nil, fault.WithFix(fault.New(fault.Invalid, "%q is not a kind of source", kind), yamltree.Meant(kind, kinds))
}
