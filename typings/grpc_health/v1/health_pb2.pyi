class HealthCheckResponse:
    SERVING: int
