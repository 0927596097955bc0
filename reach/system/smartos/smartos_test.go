package smartos

import (
	"testing"

	"bakeoff/reach/system/systemtest"
)

func TestSuite(t *testing.T) {
	systemtest.Run(t, System{}, map[string]systemtest.Answers{
		"starting": {Machine: systemtest.Machine{
			Says: map[string]systemtest.Answer{"svcs -H -o state svc:/milestone/multi-user-server:default": {Code: 0,
				Stdout: "offline*\n"}}}, Ready: false},
		"up": {Machine: systemtest.Machine{
			Says: map[string]systemtest.Answer{"svcs -H -o state svc:/milestone/multi-user-server:default": {Code: 0,
				Stdout: "online\n"}}}, Ready: true},
	})
}
