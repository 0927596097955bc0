package server

import (
	"context"
	"encoding/json"

	"bakeoff/base/fault"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"
)

// offeredKey is the key in Target.State of the protocols that the server offers.
const offeredKey = "http.offered"

// AskOffered notes which protocols the server agrees to in TLS handshakes, for KeepProtocol.
func (s *Server) AskOffered(ctx context.Context) error {
	if s.target.State == nil || s.target.State[offeredKey] != "" {
		return nil
	}
	offered, err := s.peer().Offers(ctx, checkTime)
	if err != nil {
		return fault.Op("ask which protocols the server offers", err)
	}
	names := []string{}
	for _, protocol := range offered {
		names = append(names, map[string]string{"h2": workload.HTTP2, "http/1.1": workload.HTTP11}[protocol])
	}
	b, err := json.Marshal(names)
	s.target.State[offeredKey] = string(b)
	return err
}

// KeepProtocol adds to the raw output of a trial what the server offers and what the load
// generator speaks; used is "" if its output says so.
func (s *Server) KeepProtocol(raw workload.Raw, used string) error {
	p := workload.Protocol{Used: used}
	if text := s.target.State[offeredKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &p.Offered); err != nil {
			return fault.Wrap(fault.Lab, offeredKey, err)
		}
	}
	return raw.KeepProtocol(p)
}

// ProtocolName is the name of the protocol of the native load generator, which uses no other:
// a response in another one is an error.
func ProtocolName(protocol string) string {
	if protocol == http.Two {
		return workload.HTTP2
	}
	return workload.HTTP11
}
