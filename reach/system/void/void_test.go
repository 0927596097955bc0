package void

import (
	"testing"

	"bakeoff/reach/system/systemtest"
)

func TestSuite(t *testing.T) {
	systemtest.Run(t, System{}, map[string]systemtest.Answers{
		"first stage": {Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"ps -p 1 -o comm=": {Code: 0,
			Stdout: "runit\n"}, "pgrep -x runsvdir": {Code: 1, Stdout: ""}}}, Ready: false},
		"second stage": {Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"ps -p 1 -o comm=": {Code: 0,
			Stdout: "runit\n"}, "pgrep -x runsvdir": {Code: 0, Stdout: "212\n"}}}, Ready: true},
		"a container": {Machine: systemtest.Machine{Says: map[string]systemtest.Answer{"ps -p 1 -o comm=": {Code: 0,
			Stdout: "sh\n"}}}, Ready: true},
	})
}
