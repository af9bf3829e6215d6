{{- define "eviction.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of all objects. */}}
{{- define "eviction.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "eviction.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A DaemonSet's selector can never be changed: nothing else may come in here. */}}
{{- define "eviction.selectorLabels" -}}
app.kubernetes.io/name: {{ include "eviction.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eviction.labels" -}}
{{ include "eviction.selectorLabels" . }}
{{- if .Values.helmLabels }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "eviction.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "eviction.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name the account that is there already, or let create be true" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "eviction.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* A map of signals and amounts in the grammar of the kubelet's flags. */}}
{{- define "eviction.bySignal" -}}
{{- $parts := list -}}
{{- range $signal, $amount := .amounts -}}
{{- $parts = append $parts (printf "%s%s%s" $signal $.sign $amount) -}}
{{- end -}}
{{- join "," $parts -}}
{{- end -}}

{{/* Not empty if evictionHard or evictionSoft has a signal that begins so. */}}
{{- define "eviction.watches" -}}
{{- range $thresholds := list .root.Values.evictionHard .root.Values.evictionSoft -}}
{{- range $signal, $_ := $thresholds -}}
{{- if hasPrefix $.prefix $signal }}yes{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The directories of the node's disks, if any is watched, or what pods hold there: a list in JSON. */}}
{{- define "eviction.disks" -}}
{{- if or .Values.storageLimits (include "eviction.watches" (dict "root" . "prefix" "nodefs.")) (include "eviction.watches" (dict "root" . "prefix" "imagefs.")) -}}
{{- toJson (list .Values.disk.kubeletRoot .Values.disk.runtimeRoot .Values.disk.podLogs | uniq) -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* Where the runtime's socket is to be seen, if that is asked for and a disk is watched; else empty. */}}
{{- define "eviction.runtimeDirectory" -}}
{{- if and .Values.disk.runtimeEndpoint (include "eviction.disks" . | fromJsonArray) -}}
{{- .Values.disk.runtimeEndpoint | trimPrefix "unix://" | dir -}}
{{- end -}}
{{- end -}}

{{/* Address and port of the HTTP server; an IPv6 address stands in brackets. */}}
{{- define "eviction.listen" -}}
{{- $address := .Values.metrics.address | default "$(HOST_IP)" -}}
{{- if contains ":" $address -}}
{{- $address = printf "[%s]" $address -}}
{{- end -}}
{{- printf "%s:%d" $address (int .Values.metrics.port) -}}
{{- end -}}

{{/* What a probe asks. The kubelet's own choice, the pod's address, is the node's; it is wrong where only another one answers. */}}
{{- define "eviction.ask" -}}
httpGet:
  {{- if not (has .root.Values.metrics.address (list "" "0.0.0.0" "::")) }}
  host: {{ .root.Values.metrics.address | quote }}
  {{- end }}
  path: {{ .path }}
  port: metrics
{{- end -}}

{{- define "eviction.configuration" -}}
apiVersion: eviction.dev/v1alpha1
kind: EvictionConfiguration
{{ toYaml .Values.additions }}
{{- end -}}
