// Package loops lists the parts of native workloads that run on the target. It
// is separate from the list of workloads to keep the agent small: the agent is
// started for every operation on the target.
package loops
