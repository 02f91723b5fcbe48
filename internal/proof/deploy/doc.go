// Package deploy holds what is deployed to the facts: images, manifests, alerts, dashboard and runbook name only variables,
// metrics and commands that the service has, and pods are as closed as they can be.
//
// Tests with the build tag "deploy" look at rendered manifests, which `make check-deploy` makes before it runs them.
package deploy
