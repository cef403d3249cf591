{{/* Labels that select the pods of a process. Takes {root, process}. */}}
{{- define "sesi.selector" -}}
app.kubernetes.io/name: sesi
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .process }}
{{- end }}

{{/* All labels. Takes {root, process}. */}}
{{- define "sesi.labels" -}}
{{ include "sesi.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* DRAIN_SECONDS + SHUTDOWN_GRACE_SECONDS + 10 */}}
{{- define "sesi.grace" -}}
{{- add (int .Values.settings.DRAIN_SECONDS) (int .Values.settings.SHUTDOWN_GRACE_SECONDS) 10 -}}
{{- end }}

{{- define "sesi.image" -}}
{{- $repository := required "image.repository must name the image" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The key of the Secret with the URL of a process's role. Takes {root, process}. */}}
{{- define "sesi.databaseKey" -}}
{{ dict "jobs" "DATABASE_URL_JOBS" "migrate" "DATABASE_URL_MIGRATE" | dig .process "DATABASE_URL" }}
{{- end }}

{{/* Whether a pod has the volume for the gateway's calls. Takes {root, process}. */}}
{{- define "sesi.fallback" -}}
{{- if and (eq .process "api") .root.Values.fallbackVolume }}true{{ end -}}
{{- end }}

{{/* What all pods share, the container's arguments apart. Takes {root, process}. */}}
{{- define "sesi.pod" -}}
{{- $names := . }}
{{- with .root -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: tmp
    emptyDir: {medium: Memory, sizeLimit: 16Mi}
  - name: secrets
    secret:
      secretName: {{ required "secret.name must name an existing Secret" .Values.secret.name }}
      defaultMode: 0440
      items:
        - {key: {{ include "sesi.databaseKey" $names }}, path: DATABASE_URL}
        {{- range concat .Values.secret.files .Values.secret.plain }}
        - {key: {{ . | quote }}, path: {{ . | quote }}}
        {{- end }}
  {{- if include "sesi.fallback" $names }}
  - name: fallback
    {{- toYaml .Values.fallbackVolume | nindent 4 }}
  {{- end }}
{{- with .Values.pod }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Takes {root, process}. */}}
{{- define "sesi.container" -}}
{{- $names := . }}
{{- with .root -}}
image: {{ include "sesi.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: secrets, mountPath: /run/secrets/sesi, readOnly: true}
  {{- if include "sesi.fallback" $names }}
  - {name: fallback, mountPath: /var/lib/sesi}
  {{- end }}
env:
  {{- if not .Values.settings.TRUSTED_PROXIES }}
  {{- fail "settings.TRUSTED_PROXIES must name the addresses of the ingress controller" }}
  {{- end }}
  {{- $settings := .Values.settings }}
  {{- range $name := list "GATEWAY_ENABLED" "OTP_SENDER" "PUSH_SENDER" }}
  {{- if not (hasKey $settings $name) }}
  {{- fail (printf "settings.%s must be set: it has no default in production" $name) }}
  {{- end }}
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - {name: {{ $name }}, value: {{ $value | toString | quote }}}
  {{- end }}
  {{- range prepend .Values.secret.files "DATABASE_URL" }}
  - {name: {{ . }}_FILE, value: /run/secrets/sesi/{{ . }}}
  {{- end }}
  {{- if include "sesi.fallback" $names }}
  - {name: WEBHOOK_FALLBACK_ENABLED, value: "true"}
  - {name: WEBHOOK_FALLBACK_DIR, value: /var/lib/sesi}
  {{- end }}
{{- end }}
{{- end }}
