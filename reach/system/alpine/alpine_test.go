package alpine

import (
	"testing"

	"bakeoff/reach/system/systemtest"
)

func TestSuite(t *testing.T) {
	systemtest.Run(t, System{}, map[string]systemtest.Answers{
		"booting": {Machine: systemtest.Machine{Files: map[string]string{"/run/openrc/softlevel": "sysinit\n"}},
			Ready: false},
		"up": {Machine: systemtest.Machine{Files: map[string]string{"/run/openrc/softlevel": "default\n"}},
			Ready: true},
		"a container": {Machine: systemtest.Machine{}, Ready: true},
	})
}
